"""Rules about optimizers in 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.data_types import precision
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS718",
    "lamb-with-fixed-loss-scale",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: DeepSpeed lamb optimizer requires dynamic loss scaling",
    reads=("optimizer.type", "fp16.loss_scale"),
    summary="Lamb with a fixed loss scale.",
    explanation="""Lamb works with a dynamic loss scale only. DeepSpeed looks at `fp16.loss_scale` even where fp16 is
    off.""",
    source="runtime/engine.py:2022",
    bad={
        "optimizer": {"type": "Lamb", "params": {"lr": 0.001}},
        "fp16": {"enabled": False, "loss_scale": 128},
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "fp16": {"enabled": False, "loss_scale": 128},
    },
)
def lamb_with_fixed_loss_scale(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16, optimizer = bound.config.fp16, bound.config.optimizer
    if fp16 is not None and fp16.loss_scale != 0 and optimizer is not None and optimizer.type == "Lamb":
        yield Finding(
            ("fp16", "loss_scale"),
            f"Lamb refuses a fixed loss scale, here {fp16.loss_scale:g}",
            "remove it, or write 0",
            at="value",
            related=(Related(("optimizer", "type"), "Lamb is chosen here"),),
            fix=remove(("fp16", "loss_scale"), "remove `loss_scale`"),
        )


@rule(
    "DS719",
    "adagrad-cannot-save",
    "error",
    "refused",
    phase="save",
    says="KeyError: ",
    reads=("optimizer.type", "zero_optimization.stage", "fp16.enabled", "bf16.enabled"),
    summary="Adagrad in 16 bits at stage 0, whose first checkpoint fails.",
    explanation="""Adagrad makes its state for the parameters it is built with. At stage 0 DeepSpeed then gives it fp32
    copies of them, so the state of the old ones is left over; training works, and `save_checkpoint` stops on the first
    parameter that it does not find.""",
    source="runtime/fp16/unfused_optimizer.py:88",
    bad={"optimizer": {"type": "Adagrad", "params": {"lr": 0.01}}, "bf16": {"enabled": True}},
    good={
        "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 1},
    },
)
def adagrad_cannot_save(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    optimizer = config.optimizer
    if optimizer is None or optimizer.type != "Adagrad" or config.zero_stage:
        return
    half = precision(config)
    if half != "fp32":
        yield Finding(
            ("optimizer", "type"),
            f"Adagrad in {half} at stage 0 trains, but cannot save a checkpoint",
            "set `zero_optimization.stage` to 1",
            at="value",
            related=(Related((half, "enabled"), f"{half} is switched on here"),),
        )
