"""Each rule's examples against the engine: the good one trains, the bad one does what the rule says."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dsconf.check import check
from dsconf.rules import RULES
from dsconf.rules.rule import Rule
from dsconf.source import plain, read_text
from proof.engine import Engine, Verdict

#: The rules that the engine shows to be right on one machine without a GPU; for the others, reading `source` has to do.
PROVABLE = tuple(rule for rule in RULES if rule.judge == "deepspeed" and rule.shown)
BY_SOURCE = tuple(rule for rule in RULES if rule not in PROVABLE)


def objections(rule: Rule, engine: Engine) -> Iterator[str]:
    """What the engine has to say against a rule."""
    good = _run(rule, rule.example("good"), engine)
    if not good.trained:
        yield f"the good example fails at {good.phase}: {good.error}: {good.message}"
    text = rule.example("bad")
    bad = _run(rule, text, engine)
    expected = rule.phase if rule.effect == "refused" else "step" if rule.effect == "hangs" else "done"
    if (bad.phase, bad.hung) != (expected, rule.effect == "hangs"):
        yield f"the bad example gets to {bad.phase} instead of {expected}: {bad.error}: {bad.message}"
    elif rule.says not in (raised := " ".join(f"{bad.error}: {bad.message}".split())):
        yield f"the engine does not say {rule.says!r} but {raised!r}"
    elif rule.effect == "ignored":
        without = _run(rule, _without(rule, text), engine)
        if (without.losses, without.weights) != (bad.losses, bad.weights):
            yield "training is not the same without what it calls ignored"


def _run(rule: Rule, text: str, engine: Engine) -> Verdict:
    return engine.run(
        text,
        world_size=rule.context.world_size or 1,
        scheduler=rule.context.scheduler or "config",
        zero_init=rule.context.zero_init,
        model="big" if rule.swaps else "tiny",
        optimizer=rule.context.optimizer or ("config" if '"optimizer"' in text else "auto"),
    )


def _without(rule: Rule, text: str) -> str:
    """The bad example without what the rule speaks about."""
    document = read_text(text, "ds_config.json")
    values = plain(document.root) if document.root else {}
    for item in check(document, rule.context).diagnostics:
        if item.code == rule.code:
            block = values
            for part in item.path[:-1]:
                block = block[part]
            block.pop(item.path[-1], None)
    return json.dumps(values)
