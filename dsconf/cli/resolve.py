"""`dsconf resolve`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from dsconf.cli.options import OK, add_context, complain, context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconf.resolve import Setting
    from dsconf.rules.rule import Context


_EXAMPLES = """\
examples:
  dsconf resolve ds_config.json --world-size 8
  dsconf resolve zero3_offload gradient_clipping=0.5    a preset, with an override
  dsconf resolve --for transformers --training-args args.yaml ds_config.json
  dsconf resolve --deepspeed 0.14.5 --all ds_config.json
  dsconf resolve --format json ds_config.json
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("file", metavar="FILE|PRESET")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a value for a key, or ~KEY to remove it")
    parser.add_argument("--all", action="store_true", help="also the defaults of blocks that are not there")
    parser.add_argument("--format", choices=("full", "json"), default="full")
    add_context(parser)
    parser.set_defaults(command=_run)


def settings_of(name: str, overrides: Sequence[str], known: Context) -> tuple[Setting, ...] | str:
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


def _run(options: argparse.Namespace) -> int:
    from dsconf.diagnostic import dotted
    from dsconf.resolve import as_records

    known = context(options)
    settings = settings_of(options.file, options.overrides, known)
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


def value_of(setting: Setting) -> str:
    return json.dumps(setting.value, ensure_ascii=False, default=str)


def _assignment(name: str, setting: Setting) -> str:
    return f"{name} = {value_of(setting)}"
