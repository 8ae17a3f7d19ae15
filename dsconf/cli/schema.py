"""`dsconf schema`."""

from __future__ import annotations

import argparse
import sys

from dsconf.cli.options import OK

_EXAMPLES = """\
examples:
  dsconf schema > ds_config.closed.schema.json      what the compiler emits
  dsconf schema --open > ds_config.schema.json      for editors
  dsconf schema --vscode                            to put into settings.json
  dsconf schema --report                            of what `dsconf validate --format json` prints
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--open", action="store_true", help="the one for editors, which lets unknown keys pass")
    which.add_argument("--report", action="store_true", help="the one of what `validate --format json` prints")
    which.add_argument("--vscode", action="store_true", help="the settings that give VS Code the one for editors")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.schema import as_text, committed

    if options.vscode:
        from dsconf.editors import vscode_settings

        sys.stdout.write(as_text(vscode_settings()))
        return OK
    sys.stdout.write(committed("open" if options.open else "report" if options.report else "closed"))
    return OK
