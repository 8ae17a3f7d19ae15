"""Each rule against the real DeepSpeed: its good example trains; its bad one does what the rule says."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from dsconf.check import check
from dsconf.rules import RULES
from dsconf.rules.rule import Rule
from dsconf.source import plain, read_text
from proof.engine import Engine, Verdict

#: The rules about what DeepSpeed itself does; others are about programs that read the file before it.
JUDGED = [rule for rule in RULES if rule.judge == "deepspeed"]
#: Those of them that a machine without a GPU can show.
PROVABLE = [rule for rule in JUDGED if rule.shown]


def test_all_but_a_few_rules_can_be_shown() -> None:
    assert len(JUDGED) - len(PROVABLE) < len(JUDGED) / 10


def run(rule: Rule, text: str, engine: Engine) -> Verdict:
    model: Literal["tiny", "big"] = "big" if rule.swaps else "tiny"
    optimizer = rule.context.optimizer or ("config" if '"optimizer"' in text else "auto")
    return engine.run(text, world_size=rule.context.world_size or 1, model=model, optimizer=optimizer)


def with_effect(effect: str, *, same: bool = True) -> Any:
    chosen = [rule for rule in PROVABLE if (rule.effect == effect) is same]
    return pytest.mark.parametrize("rule", chosen, ids=lambda rule: rule.code)


@pytest.mark.parametrize("rule", PROVABLE, ids=lambda rule: rule.code)
def test_the_good_example_trains(rule: Rule, engine: Engine) -> None:
    verdict = run(rule, rule.example("good"), engine)
    assert verdict.trained, verdict.log


@with_effect("refused")
def test_the_engine_refuses_what_a_rule_calls_refused_at_that_phase(rule: Rule, engine: Engine) -> None:
    verdict = run(rule, rule.example("bad"), engine)
    assert (verdict.phase, verdict.hung) == (rule.phase, False), verdict


@with_effect("refused", same=False)
def test_the_engine_runs_what_a_rule_does_not_call_refused(rule: Rule, engine: Engine) -> None:
    verdict = run(rule, rule.example("bad"), engine)
    assert verdict.trained, verdict.log


@with_effect("ignored")
def test_training_is_bit_equal_without_what_a_rule_calls_ignored(rule: Rule, engine: Engine) -> None:
    text = rule.example("bad")
    document = read_text(text, "ds_config.json")
    assert document.root is not None
    values = plain(document.root)
    findings = [item for item in check(document, rule.context).diagnostics if item.code == rule.code]
    assert findings
    for item in findings:
        block = values
        for part in item.path[:-1]:
            block = block[part]
        block.pop(item.path[-1], None)
    before, after = run(rule, text, engine), run(rule, json.dumps(values), engine)
    assert before.trained and after.trained
    assert (before.losses, before.weights) == (after.losses, after.weights)
