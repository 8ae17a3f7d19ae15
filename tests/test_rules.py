"""Each rule's record is complete, its bad example shows the rule and nothing else, its good one shows nothing."""

from __future__ import annotations

import re

import pytest

from dsconf.check import check
from dsconf.rules import RULES, find_rule
from dsconf.rules.rule import Rule
from dsconf.source import read_text

rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def codes(rule: Rule, which: str) -> set[str]:
    """The codes of what is found in an example; notes only when they are the rule's own."""
    report = check(read_text(rule.example(which), "ds_config.json"), rule.context_of(which))
    return {item.code for item in report.diagnostics if item.severity != "info" or item.code == rule.code}


@rules
def test_bad_example_shows_the_rule_and_nothing_else(rule: Rule) -> None:
    assert codes(rule, "bad") == {rule.code}


@rules
def test_good_example_shows_nothing(rule: Rule) -> None:
    assert codes(rule, "good") == set()


@rules
def test_record_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"DS\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.summary.endswith(".") and rule.explanation.endswith(".")
    assert re.fullmatch(r"[\w/]+\.py:\d+", rule.source)
    assert rule.phase is None or rule.effect in ("refused", "exhausts")
    assert rule.effect != "refused" or rule.phase is not None


def test_codes_and_names_are_unique_and_in_order() -> None:
    assert [rule.code for rule in RULES] == sorted({rule.code for rule in RULES})
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_rules_are_found_by_code_and_by_name_in_any_case() -> None:
    assert find_rule("ds301") is find_rule("allgather-under-stage-3")
    assert find_rule("no-such-rule") is None
