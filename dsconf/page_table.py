"""The pages that `dsconf explain` prints, written out beforehand, so that looking one up imports no rule.

The records of rules and keys are the truth; `python -m dsconf.page_table` writes the table, and a test fails when it is
stale. A page begins with a form feed and a line of what it is found by: two words, or the dotted path of a key.
"""

from __future__ import annotations

import os

FILE = os.path.join(os.path.dirname(__file__), "pages.txt")


def lookup(word: str) -> str | None:
    """The page of a rule (by code or name, in any case) or of a key (by the end of its dotted path), as written out."""
    with open(FILE, encoding="utf-8") as stream:
        pages = [page.partition("\n") for page in stream.read().split("\f")]
    folded, dotted = word.lower(), f".{word.strip('.')}"
    for words, _, text in pages:
        if " " in words and folded in words.lower().split():
            return text
    return "\n".join(text for words, _, text in pages if f".{words}".endswith(dotted)) or None


def as_text() -> str:
    """The whole table."""
    from dsconf.explain import job_page, key_pages, launcher_page, rule_page
    from dsconf.launcher import rules as launcher
    from dsconf.rules import RULES

    pages = [(f"{rule.code} {rule.name}", rule_page(rule)) for rule in RULES]
    pages += [(f"{rule.code} {rule.name}", launcher_page(rule)) for rule in launcher.RULES]
    pages += [("job --job", job_page()), *key_pages()]
    return "".join(f"\f{words}\n{text}" for words, text in pages)


if __name__ == "__main__":
    from dsconf.atomic import write_text

    write_text(FILE, as_text())
