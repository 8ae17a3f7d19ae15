"""Rules about a file and the checkpoint that its run goes on from, where something is known about that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.rules.rule import Context, Finding, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound

#: Stages whose checkpoints are laid out alike.
_ALIKE = ({0}, {1, 2}, {3})


@rule(
    "DS992",
    "resume-at-another-stage",
    "warning",
    "refused",
    phase="load",
    says="FileNotFoundError: [Errno 2] No such file or directory",
    reads=("zero_optimization.stage", "checkpoint.load_universal"),
    context=Context(saved_stage=0),
    summary="A checkpoint of one ZeRO stage, loaded at another.",
    explanation="""Each stage lays the optimizer's state out in its own way: whole at stage 0, in flat parts at stages 1
    and 2, in parts of each parameter at stage 3. Only a checkpoint of stage 1 loads at stage 2, and the other way
    round; everywhere else `load_checkpoint` fails.""",
    source="runtime/engine.py:4319",
    bad={"zero_optimization": {"stage": 2}},
    good={"zero_optimization": {"stage": 0}},
)
def resume_at_another_stage(bound: Bound, context: Context) -> Iterator[Finding]:
    saved, stage = context.saved_stage, bound.config.zero_stage
    if saved is None or _universal(bound) or any({saved, stage} <= alike for alike in _ALIKE):
        return
    yield Finding(
        ("zero_optimization", "stage"),
        f"the checkpoint was saved at stage {saved}, and `load_checkpoint` cannot read its optimizer at stage {stage}",
        f"resume at stage {saved}, or start a new optimizer from its weights alone",
        at="value",
    )


@rule(
    "DS993",
    "resume-in-another-precision",
    "warning",
    "refused",
    phase="load",
    says="FileNotFoundError: [Errno 2] No such file or directory",
    reads=("zero_optimization.stage", "fp16.enabled", "bf16.enabled", "checkpoint.load_universal"),
    context=Context(saved_stage=2, saved_precision="fp16"),
    summary="A checkpoint in one precision, loaded in another.",
    explanation="""Under ZeRO the files of a bf16 run have names of their own, which a run in fp16 or fp32 does not look
    for, and the other way round; fp16 and fp32 load each other's. Without ZeRO the optimizers keep different things,
    and only bf16 can go on from fp16.""",
    source="runtime/engine.py:4320",
    bad={"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}},
    good={"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},
)
def resume_in_another_precision(bound: Bound, context: Context) -> Iterator[Finding]:
    saved, fp16, bf16 = context.saved_precision, bound.config.fp16, bound.config.bf16
    now = "fp16" if fp16 is not None and fp16.enabled else "bf16" if bf16 is not None and bf16.enabled else "fp32"
    if saved is None or saved == now or _universal(bound):
        return
    loads = "bf16" not in (saved, now) if bound.config.zero_stage else (saved, now) == ("fp16", "bf16")
    if not loads:
        yield Finding(
            (saved if now == "fp32" else now, "enabled"),
            f"the checkpoint was saved in {saved}, and a run in {now} cannot load it",
            f"resume in {saved}",
            at="value",
        )


def _universal(bound: Bound) -> bool:
    checkpoint = bound.config.checkpoint
    return checkpoint is not None and checkpoint.load_universal
