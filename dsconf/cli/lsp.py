"""`dsconf lsp`."""

from __future__ import annotations

import argparse

from dsconf.cli.options import OK, complain

_EXAMPLES = """\
examples:
  dsconf lsp                                        started by an editor, for files of type json
  pip install 'dsconf[lsp]'                         what it needs beside dsconf
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        from dsconf.lsp.server import serve
    except ImportError as error:
        return complain(f"the language server needs {error.name}; install it with: pip install 'dsconf[lsp]'")
    serve()
    return OK
