"""Each rule's examples against the engine: the good one trains, the bad one does what the rule says."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any, Literal

from dsconf.check import check
from dsconf.rules import RULES
from dsconf.rules.rule import Context, Rule
from dsconf.source import plain, read_text
from proof.engine import Engine, Verdict

#: The rules that the engine shows to be right on one machine without a GPU; for the others, reading `source` has to do.
PROVABLE = tuple(rule for rule in RULES if rule.judge == "deepspeed" and rule.shown)
BY_SOURCE = tuple(rule for rule in RULES if rule not in PROVABLE)


def objections(rule: Rule, engine: Engine) -> Iterator[str]:
    """What the engine has to say against a rule."""
    good = run_example(rule, rule.example("good"), engine, "good")
    if not good.trained:
        yield f"the good example fails at {good.phase}: {good.error}: {good.message}"
    text = rule.example("bad")
    bad = run_example(rule, text, engine)
    expected = rule.phase if rule.effect == "refused" else "step" if rule.effect == "hangs" else "done"
    if (bad.phase, bad.hung) != (expected, rule.effect == "hangs"):
        yield f"the bad example gets to {bad.phase} instead of {expected}: {bad.error}: {bad.message}"
    elif rule.says not in (raised := " ".join(f"{bad.error}: {bad.message}".split())):
        yield f"the engine does not say {rule.says!r} but {raised!r}"
    elif rule.effect == "ignored":
        without = run_example(rule, _without(rule, text), engine)
        if (without.losses, without.weights) != (bad.losses, bad.weights):
            yield "training is not the same without what it calls ignored"


def run_example(rule: Rule, text: str, engine: Engine, which: Literal["bad", "good"] = "bad") -> Verdict:
    """An example in the engine, with around it what the rule says of its job."""
    context = rule.context_of(which)
    how: dict[str, Any] = {
        "world_size": context.world_size or 1,
        "scheduler": context.scheduler or "config",
        "zero_init": context.zero_init,
        "container": context.container or "",
        "model": "big" if rule.swaps else "tiny",
        "optimizer": context.optimizer or ("config" if '"optimizer"' in text else "auto"),
    }
    if context.saved_stage is None:
        return engine.run(text, **how)
    with tempfile.TemporaryDirectory(prefix="dsconf-proof-") as checkpoint:
        before = engine.run(_saved(text, context), saves=checkpoint, **how)
        return engine.run(text, resumes=checkpoint, **how) if before.trained else before


def _saved(text: str, context: Context) -> str:
    """The configuration of the run that saved what an example goes on from."""
    values: dict[str, Any] = json.loads(text)
    values["zero_optimization"] = {**values.get("zero_optimization", {}), "stage": context.saved_stage}
    if context.saved_precision:
        for name in ("fp16", "bf16"):
            values[name] = {"enabled": name == context.saved_precision}
    return json.dumps(values)


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
