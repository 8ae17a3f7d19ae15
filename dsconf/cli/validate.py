"""`dsconf validate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsconf import __version__
from dsconf.cli.options import FAILED, FINDINGS, OK, add_color, add_context, complain, context, wants_color

if TYPE_CHECKING:
    from dsconf.cli.options import Commands
    from dsconf.diagnostic import Diagnostic
    from dsconf.source import Document


def register(commands: Commands) -> None:
    parser = commands.add_parser("validate", help="check configuration files")
    parser.add_argument("paths", nargs="*", metavar="FILE|DIR|-", help="files, folders, or - for standard input")
    parser.add_argument("--format", choices=("full", "concise", "json"), default="full")
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info", "never"),
        default="error",
        help="least severity that makes the exit status 1 (default: error)",
    )
    parser.add_argument("--show-info", action="store_true", help="also show notes")
    add_context(parser)
    add_color(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.check import check
    from dsconf.render import Style, as_json, concise, full, summary

    known = context(options)
    if isinstance(known, str):
        return complain(known)
    style = Style(wants_color(options.color))
    found: list[Diagnostic] = []
    files = failures = 0
    for document in _documents(options.paths or ["."]):
        if isinstance(document, str):
            failures += 1
            complain(document)
            continue
        files += 1
        diagnostics = check(document, known).diagnostics
        found.extend(diagnostics)
        for item in diagnostics:
            if options.format != "json" and (item.severity != "info" or options.show_info):
                print(full(item, document, style) if options.format == "full" else concise(item))
    if options.format == "json":
        sys.stdout.write(as_json(found, files, __version__))
    elif options.format == "full" and files:
        print(summary(found, files, options.show_info))
    if failures:
        return FAILED
    return FINDINGS if _fails(found, options.fail_on) else OK


def _fails(diagnostics: Sequence[Diagnostic], threshold: str) -> bool:
    levels = {"error": ("error",), "warning": ("error", "warning"), "info": ("error", "warning", "info"), "never": ()}
    return any(item.severity in levels[threshold] for item in diagnostics)


def _documents(names: Sequence[str]) -> Iterator[Document | str]:
    """What was read, or a line that says why not."""
    from dsconf.files import configs_in
    from dsconf.source import read_bytes, read_file

    for name in names:
        path = Path(name)
        if name == "-":
            yield read_bytes(sys.stdin.buffer.read(_STDIN_LIMIT), "<stdin>")
        elif path.is_dir():
            configs = list(configs_in(path))
            if not configs:
                yield f"{name}: no DeepSpeed configuration in this directory; name a file"
            for config in configs:
                yield read_file(config)
        else:
            try:
                yield read_file(path)
            except OSError as error:
                yield f"{name}: {(error.strerror or str(error)).lower()}"
            except ValueError:
                yield f"{name!r}: not a file name"


#: One byte more than a file may have, so that too much of it is noticed and never held in memory.
_STDIN_LIMIT = (16 << 20) + 1
