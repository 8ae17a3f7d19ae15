"""`dsconf presets`."""

from __future__ import annotations

import argparse
import sys

from dsconf.cli.options import OK, complain

_EXAMPLES = """\
examples:
  dsconf presets                                    the list
  dsconf presets zero3_offload                      one, with its comments
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf import presets

    if options.name is None:
        width = max(map(len, presets.names()))
        for name in presets.names():
            print(f"{name:{width}}  {presets.summary(name)}")
        return OK
    try:
        sys.stdout.write(presets.text(options.name))
    except KeyError:
        return complain(no_preset(options.name))
    return OK


def no_preset(name: str) -> str:
    from dsconf import presets
    from dsconf.rules.rule import close_match

    guess = close_match(name, presets.names())
    hint = f"did you mean {guess}?" if guess else f"there are {', '.join(presets.names())}"
    return f"no preset {name!r}; {hint}"
