"""`dsconf convert`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconf.cli.options import FINDINGS, OK, add_color, add_world_size, complain, style

if TYPE_CHECKING:
    from dsconf.convert import Converted

_PROGRAMS = ("accelerate", "transformers", "lightning")
_EXAMPLES = """\
examples:
  dsconf convert --from accelerate accelerate.yaml -o ds_config.json
  dsconf convert --from transformers args.yaml zero_optimization.stage=3 -o ds_config.json
  dsconf convert --from lightning trainer.yaml
  dsconf convert --to accelerate ds_config.json --world-size 8 -o accelerate.yaml
  dsconf convert --to lightning ds_config.json
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--from", dest="source", choices=_PROGRAMS, help="FILE holds the arguments of this program")
    way.add_argument("--to", dest="target", choices=_PROGRAMS, help="FILE is a ds_config.json")
    parser.add_argument("file", metavar="FILE", help="arguments in YAML or JSON, or with --to a configuration")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="with --from: a value for a key, or ~KEY")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")
    add_world_size(parser)
    add_color(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    import json

    from dsconf.atomic import write_text
    from dsconf.convert import ConvertError, from_config, to_config
    from dsconf.files import reason
    from dsconf.overrides import OverrideError
    from dsconf.source import read_file
    from dsconf.training_args import TrainingArgsError, read_training_args

    try:
        if options.source:
            arguments = read_training_args(options.file)
            outcome = to_config(arguments, options.source, options.overrides, world_size=options.world_size)
        elif options.overrides:
            return complain("KEY=VALUE goes with --from; change the configuration itself before --to")
        else:
            outcome = from_config(read_file(options.file), options.target, world_size=options.world_size)
    except (ConvertError, OverrideError, TrainingArgsError) as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"{options.file}: {reason(error)}")
    except ValueError:
        return complain(f"{options.file!r}: not a file name")
    _report(outcome, options)
    if not outcome.sound:
        print("dsconf: nothing was written", file=sys.stderr)
        return FINDINGS
    if options.source:
        try:
            text = json.dumps(outcome.values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        except ValueError:
            return complain(f"{options.file}: a value is infinite or not a number, which JSON cannot hold")
    else:
        import yaml

        text: str = yaml.safe_dump(outcome.values, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]
    if options.output is None:
        sys.stdout.write(text)
        return OK
    try:
        write_text(options.output, text)
    except OSError as error:
        return complain(f"{options.output}: {reason(error)}")
    return OK


def _report(outcome: Converted, options: argparse.Namespace) -> None:
    from dsconf.report.text import full, printable
    from dsconf.source import Document

    look = style(options.color)
    for item in outcome.remarks:
        print(printable(f"{item.place}: {item.severity}: {item.message}"), file=sys.stderr)
    for item, document, origin in outcome.diagnostics:
        if item.severity != "info":
            print(full(item, document or Document("", "", None, (), ()), look, origin=origin), file=sys.stderr)
