"""`dsconf resolve` and `dsconf diff`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from dsconf.cli.options import FINDINGS, OK, add_context, complain, context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconf.cli.options import Commands
    from dsconf.resolve import Setting
    from dsconf.rules.rule import Context


def register(commands: Commands) -> None:
    parser = commands.add_parser("resolve", help="show the effective configuration, with the origin of every value")
    parser.add_argument("file", metavar="FILE|PRESET")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a value for a key, or ~KEY to remove it")
    parser.add_argument("--all", action="store_true", help="also the defaults of blocks that are not there")
    parser.add_argument("--format", choices=("full", "json"), default="full")
    add_context(parser)
    parser.set_defaults(command=_resolve)

    parser = commands.add_parser("diff", help="show what differs in effect between two files or presets")
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    add_context(parser)
    parser.set_defaults(command=_diff)


def _settings(name: str, overrides: Sequence[str], known: Context) -> tuple[Setting, ...] | str:
    """What a file or preset comes to, or a line that says why that cannot be told."""
    from pathlib import Path

    from dsconf import presets
    from dsconf.files import reason
    from dsconf.overrides import OverrideError, parse
    from dsconf.resolve import from_preset, resolve
    from dsconf.source import read_file

    try:
        changes = [parse(text) for text in overrides]
        if not Path(name).exists() and all(part.strip() in presets.names() for part in name.split(",")):
            return from_preset(name, changes, known)
        document = read_file(name)
        if document.root is None:
            return f"{name}: {document.faults[0].message}"
        return resolve(document, known, changes)
    except OverrideError as error:
        return str(error)
    except OSError as error:
        return f"{name}: {reason(error)}"
    except ValueError:
        return f"{name!r}: not a file name"


def _resolve(options: argparse.Namespace) -> int:
    from dsconf.diagnostic import dotted
    from dsconf.resolve import as_records

    known = context(options)
    settings = _settings(options.file, options.overrides, known)
    if isinstance(settings, str):
        return complain(settings)
    shown = [item for item in settings if options.all or not item.absent]
    if options.format == "json":
        print(json.dumps(as_records(shown), indent=2, ensure_ascii=False))
        return OK
    width = max((len(_assignment(dotted(item.path), item)) for item in shown), default=0)
    for item in shown:
        print(f"{_assignment(dotted(item.path), item):{min(width, 64)}}  {item.origin}")
    return OK


def _diff(options: argparse.Namespace) -> int:
    from dsconf.diagnostic import dotted
    from dsconf.resolve import differences

    known = context(options)
    before, after = _settings(options.before, (), known), _settings(options.after, (), known)
    for side in (before, after):
        if isinstance(side, str):
            return complain(side)
    if isinstance(before, str) or isinstance(after, str):
        return OK
    found = differences(before, after)
    for item in found:
        print(dotted(item.path))
        for mark, side in (("-", item.before), ("+", item.after)):
            sys.stdout.write(f"  {mark} {_value(side)}  {side.origin}\n" if side else f"  {mark} nothing\n")
    return FINDINGS if found else OK


def _value(setting: Setting) -> str:
    return json.dumps(setting.value, ensure_ascii=False, default=str)


def _assignment(name: str, setting: Setting) -> str:
    return f"{name} = {_value(setting)}"
