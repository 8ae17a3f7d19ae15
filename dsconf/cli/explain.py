"""`dsconf explain`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dsconf.cli.options import OK, complain

if TYPE_CHECKING:
    from dsconf.cli.options import Commands

_EXAMPLES = """\
examples:
  dsconf explain DS301                              a rule, by code
  dsconf explain nvme-without-path                  a rule, by name
  dsconf explain reduce_bucket_size                 a key, wherever it lives
  dsconf explain fp16.loss_scale                    a key, by its path
  dsconf explain job                                what --job can tell
"""


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="explain a rule or a key",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("word", metavar="CODE|NAME|KEY")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.explain import explain, suggestion

    page = explain(options.word)
    if page is None:
        guess = suggestion(options.word)
        hint = f"did you mean {guess}?" if guess else "give the code or name of a rule, or a key"
        return complain(f"nothing to explain about {options.word!r}; {hint}")
    print(page.rstrip("\n"))
    return OK
