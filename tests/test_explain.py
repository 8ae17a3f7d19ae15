"""The table that `dsconf explain` looks pages up in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconf.blocks import homes
from dsconf.explain import explain
from dsconf.launcher import rules as launcher
from dsconf.page_table import FILE, as_text, lookup
from dsconf.rules import RULES


def test_the_table_is_what_the_records_give() -> None:
    assert Path(FILE).read_text(encoding="utf-8") == as_text(), "run: python -m dsconf.page_table"


@pytest.mark.parametrize("word", ["zero_optimization.stage", "Optimizer", "job", "nothing-like-it", "", "."])
def test_the_table_says_what_the_records_say(word: str) -> None:
    assert lookup(word) == explain(word)


def test_every_rule_and_key_is_found() -> None:
    for rule in (*RULES, *launcher.RULES):
        assert lookup(rule.code.lower()) == lookup(rule.name.upper()) == explain(rule.code)
    for name in list(homes())[::25]:
        assert lookup(name) == explain(name)
