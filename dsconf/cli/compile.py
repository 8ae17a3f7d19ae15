"""`dsconf compile`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconf.cli.options import FINDINGS, OK, add_color, add_reader, add_world_size, complain, context, style
from dsconf.cli.presets import no_preset

if TYPE_CHECKING:
    from dsconf.diagnostic import ConfigError

_EXAMPLES = """\
examples:
  dsconf compile zero3_offload -o ds_config.json
  dsconf compile zero2,fp16 train_micro_batch_size_per_gpu=4
  dsconf compile zero3 zero_optimization.reduce_bucket_size=100M ~gradient_clipping
  dsconf compile zero2 train_batch_size=64 ~gradient_accumulation_steps --world-size 8
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("preset", metavar="PRESET", help="a preset, or several with commas between them")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a value for a key, or ~KEY to remove it")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")
    add_world_size(parser)
    add_reader(parser)
    add_color(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.atomic import write_text
    from dsconf.compile import compile_text
    from dsconf.diagnostic import ConfigError
    from dsconf.files import reason
    from dsconf.overrides import OverrideError

    known = context(options)
    try:
        text = compile_text(options.preset, options.overrides, known)
    except KeyError as error:
        return complain(no_preset(str(error.args[0])))
    except OverrideError as error:
        return complain(str(error))
    except ConfigError as error:
        _report_compilation(error, options)
        return FINDINGS
    if options.output is None:
        sys.stdout.write(text)
        return OK
    try:
        write_text(options.output, text)
    except OSError as error:
        return complain(f"{options.output}: {reason(error)}")
    return OK


def _report_compilation(error: ConfigError, options: argparse.Namespace) -> None:
    """Name the override that each problem comes from, or the preset."""
    from dsconf.overrides import origin, parse
    from dsconf.report.text import full
    from dsconf.source import Document

    overrides = [parse(text) for text in options.overrides]
    for item in error.diagnostics:
        if item.severity != "info":
            culprit = origin((item.path, *(other.path for other in item.related)), overrides)
            place = f"override {culprit.text}" if culprit else f"preset {options.preset}: {item.pointer or '/'}"
            print(full(item, Document("", "", None, (), ()), style(options.color), origin=place), file=sys.stderr)
