"""Rules about DeepSpeed releases other than the newest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Path
from dsconf.releases import has_class, later
from dsconf.rules.rule import Context, Finding, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS111",
    "key-of-later-release",
    "error",
    "ignored",
    block=True,
    summary="A key that the DeepSpeed release in use does not have yet.",
    explanation="""At the top level and in blocks that are plain dicts an older DeepSpeed never looks at a key that
    came later: the setting has no effect and nobody says so. In the blocks that it reads with Pydantic it refuses the
    key.""",
    source="runtime/config.py:754",
    bad={"gradient_allreduce_op": "sum"},
    good={"prescale_gradients": True},
    context=Context(deepspeed=("0.17.6",)),
    mutes=True,
    shown=False,
    until="0.19.7",
)
def key_of_later_release(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    release = context.release

    def visit(node: object, path: Path) -> Iterator[Finding]:
        if not isinstance(node, Object):
            return
        for name in dict.fromkeys(member.key for member in node.members):
            here = (*path, name)
            known = later(here, release)
            if known is None:
                member = node.get(name)
                yield from visit(member.value if member else None, here)
                continue
            effect = known.effect
            yield Finding(
                here,
                f"`{name}` came with DeepSpeed {known.since}; {release} "
                + ("refuses it" if effect == "refused" else "never looks at it"),
                f"remove it, or use DeepSpeed {known.since} or later",
                effect=effect,
                phase="parse" if effect == "refused" else None,
            )

    yield from visit(bound.document.root, ())


@rule(
    "DS112",
    "fraction-cut-off",
    "warning",
    "coerced",
    fallback=1,
    block=True,
    summary="A number with a fraction for a whole number, which an older DeepSpeed cuts off.",
    explanation="""Up to 0.14.5 DeepSpeed takes 15099494.4 for 15099494, silently. From 0.15.0 on it refuses the
    file.""",
    source="pydantic_v1.py:14",
    bad={"zero_optimization": {"stage": 2, "reduce_bucket_size": 15099494.4}},
    good={"zero_optimization": {"stage": 2, "reduce_bucket_size": 15099494}},
    context=Context(deepspeed=("0.14.5",)),
    shown=False,
    until="0.14.5",
)
def fraction_cut_off(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Mismatch

    for fact in bound.of(Mismatch):
        value = fact.value
        cut = isinstance(value, float) and fact.expected.startswith("a whole number") and abs(value) < 2**63
        if fact.kind == "type" and cut and fact.block.pydantic_1:
            whole = int(value)
            yield Finding(
                fact.path,
                f"`{fact.path[-1]}` is {show(value)}, which DeepSpeed {context.release} cuts off to {whole}",
                f"write {whole}, which later releases accept as well",
                at="value",
                fix=replace(fact.path, whole, f"write {whole}"),
            )


@rule(
    "DS113",
    "bf16-without-zero-cannot-load",
    "error",
    "refused",
    phase="load",
    says="'FP16_Optimizer' object has no attribute 'dp_process_group'",
    reads=("zero_optimization.stage", "bf16.enabled"),
    summary="bf16 without ZeRO, on a release that cannot load its own checkpoints then.",
    explanation="""From 0.17.1 to 0.17.6 DeepSpeed trains in bf16 at stage 0 and saves, but loading the checkpoint
    fails: it looks for ZeRO's files where there are none.""",
    source="runtime/engine.py:3108",
    bad={"bf16": {"enabled": True}},
    good={"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    context=Context(deepspeed=("0.17.6",)),
    shown=False,
    since="0.17.1",
    until="0.17.6",
)
def bf16_without_zero_cannot_load(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.bf16 and config.bf16.enabled and config.zero_stage == 0:
        yield Finding(
            ("bf16",),
            f"DeepSpeed {context.release} cannot load the checkpoints that it saves in bf16 at stage 0",
            "use ZeRO stage 1, or DeepSpeed 0.18.0 or later",
        )


@rule(
    "DS114",
    "schedule-of-later-release",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: DeepSpeed does not recognize LR scheduler WarmupCosineLR",
    reads=("scheduler.type",),
    summary="A schedule that the DeepSpeed release in use does not have yet.",
    explanation="""The type of a schedule is the name of one of DeepSpeed's own classes or of one in
    `torch.optim.lr_scheduler`. A name that came later is neither.""",
    source="runtime/engine.py:1935",
    bad={"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}}},
    good={"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}}},
    context=Context(deepspeed=("0.11.2",)),
    shown=False,
    until="0.11.2",
)
def schedule_of_later_release(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler = bound.config.scheduler
    if scheduler and has_class("schedulers", scheduler.type, context.release) is False:
        yield Finding(
            ("scheduler", "type"),
            f"DeepSpeed {context.release} does not have {scheduler.type} yet",
            "choose another schedule, or use a later release",
            at="value",
        )
