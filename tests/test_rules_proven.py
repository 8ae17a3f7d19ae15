"""Each rule against the real DeepSpeed: its good example trains; its bad one does what the rule says."""

from __future__ import annotations

import pytest

from dsconf.explain import evidence
from dsconf.rules import RULES
from dsconf.rules.rule import Rule
from proof.engine import Engine
from proof.rules import PROVABLE, objections

#: The rules about what DeepSpeed itself does; others are about programs that read the file before it.
JUDGED = [rule for rule in RULES if rule.judge == "deepspeed"]


def test_all_but_a_few_rules_can_be_shown() -> None:
    assert len(JUDGED) - len(PROVABLE) < len(JUDGED) / 10


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_only_what_the_engine_is_run_for_is_said_to_have_been_run(rule: Rule) -> None:
    assert ("runs the bad example" in evidence(rule)) is (rule in PROVABLE)


@pytest.mark.parametrize("rule", PROVABLE, ids=lambda rule: rule.code)
def test_a_refusal_quotes_the_engine(rule: Rule) -> None:
    assert bool(rule.says) is (rule.effect == "refused")


@pytest.mark.parametrize("rule", PROVABLE, ids=lambda rule: rule.code)
def test_the_engine_does_what_a_rule_says(rule: Rule, engine: Engine) -> None:
    assert list(objections(rule, engine)) == []
