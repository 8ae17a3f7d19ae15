"""`dsconf explain`."""

from __future__ import annotations

import argparse

from dsconf.cli.options import OK, complain

_EXAMPLES = """\
examples:
  dsconf explain DS301                              a rule, by code
  dsconf explain nvme-without-path                  a rule, by name
  dsconf explain reduce_bucket_size                 a key, wherever it lives
  dsconf explain fp16.loss_scale                    a key, by its path
  dsconf explain job                                what --job can tell
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("word", metavar="CODE|NAME|KEY")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.page_table import lookup

    page = lookup(options.word) or _of_the_records(options.word)
    if page is None:
        from dsconf.explain import suggestion

        guess = suggestion(options.word)
        hint = f"did you mean {guess}?" if guess else "give the code or name of a rule, or a key"
        return complain(f"nothing to explain about {options.word!r}; {hint}")
    print(page.rstrip("\n"))
    return OK


def _of_the_records(word: str) -> str | None:
    """The page of what is not in the table yet: a rule that somebody is writing."""
    from dsconf.explain import explain

    return explain(word)
