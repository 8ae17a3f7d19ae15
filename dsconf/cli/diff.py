"""`dsconf diff`."""

from __future__ import annotations

import argparse
import sys

from dsconf.cli.options import FINDINGS, OK, add_context, complain, context
from dsconf.cli.resolve import settings_of, value_of

_EXAMPLES = """\
examples:
  dsconf diff old.json new.json
  dsconf diff zero3_offload ds_config.json              a preset against a file
  dsconf diff --world-size 8 old.json new.json          batch sizes worked out for 8 ranks
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("before", metavar="A", help="a file or a preset")
    parser.add_argument("after", metavar="B", help="another one")
    add_context(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.diagnostic import dotted
    from dsconf.resolve import differences

    known = context(options)
    before, after = settings_of(options.before, (), known), settings_of(options.after, (), known)
    for side in (before, after):
        if isinstance(side, str):
            return complain(side)
    if isinstance(before, str) or isinstance(after, str):
        return OK
    found = differences(before, after)
    for item in found:
        print(dotted(item.path))
        for mark, side in (("-", item.before), ("+", item.after)):
            sys.stdout.write(f"  {mark} {value_of(side)}  {side.origin}\n" if side else f"  {mark} nothing\n")
    return FINDINGS if found else OK
