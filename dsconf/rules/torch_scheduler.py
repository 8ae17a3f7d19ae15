"""Rules about the schedules of `torch.optim.lr_scheduler`, named in a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, rule
from dsconf.rules.scheduler import OWN

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS806",
    "torch-scheduler-under-zero",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: DeepSpeedZeroOptimizer is not an Optimizer",
    reads=("scheduler.type", "zero_optimization.stage", "fp16.enabled", "bf16.enabled"),
    summary="A torch schedule by name under ZeRO or 16-bit training.",
    explanation="""DeepSpeed hands the schedule its own optimizer wrapper, which torch's schedules refuse. They
    work by name at stage 0 in fp32 only; a script can pass one as a callable in every stage.""",
    source="runtime/engine.py:1893",
    bad={"scheduler": {"type": "StepLR", "params": {"step_size": 10}}, "zero_optimization": {"stage": 2}},
    good={
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}},
        "zero_optimization": {"stage": 2},
    },
)
def torch_scheduler_under_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    scheduler = config.scheduler
    if scheduler is None or scheduler.type in OWN:
        return
    half = next((name for name in ("fp16", "bf16") if (block := getattr(config, name)) and block.enabled), None)
    if config.zero_stage == 0 and half is None:
        return
    place = ("zero_optimization", "stage") if config.zero_stage else (str(half), "enabled")
    yield Finding(
        ("scheduler", "type"),
        f"torch's {scheduler.type} refuses DeepSpeed's optimizer "
        + (f"at ZeRO stage {config.zero_stage}" if config.zero_stage else f"in {half}"),
        f"use one of {', '.join(OWN)}, or pass a callable to deepspeed.initialize",
        at="value",
        related=(Related(place, "DeepSpeed wraps the optimizer because of this"),),
    )


@rule(
    "DS811",
    "torch-scheduler-refuses",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: You must define either total_steps OR (epochs AND steps_per_epoch)",
    reads=("scheduler.type", "scheduler.params"),
    summary="Parameters that one of torch's own schedules does not work with.",
    explanation="""OneCycleLR needs to know how long the cycle is. StepLR divides by `step_size` at the first step.""",
    source="runtime/engine.py:1899",
    bad={"scheduler": {"type": "OneCycleLR", "params": {"max_lr": 0.001}}},
    good={"scheduler": {"type": "OneCycleLR", "params": {"max_lr": 0.001, "total_steps": 100}}},
)
def torch_scheduler_refuses(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler = bound.config.scheduler
    if scheduler is None:
        return
    if scheduler.type == "OneCycleLR":
        params = scheduler.params
        if params.total_steps is None and (params.epochs is None or params.steps_per_epoch is None):
            yield Finding(
                ("scheduler", "params"), "OneCycleLR does not know how long its cycle is", 'add "total_steps"'
            )
    elif scheduler.type == "StepLR" and scheduler.params.step_size == 0:
        yield Finding(
            ("scheduler", "params", "step_size"),
            "StepLR divides by `step_size`, which is 0",
            "write the steps between two decays",
            at="value",
            phase="step",
        )
