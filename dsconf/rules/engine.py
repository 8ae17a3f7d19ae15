"""Rules about the engine's own settings: clipping, printing, profiling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.bind import Bound


@rule(
    "DS901",
    "clipping-by-default",
    "info",
    "advice",
    summary="`gradient_clipping` is absent, and clipping is on.",
    explanation="""Since DeepSpeed 0.19.3 gradients are clipped to a norm of 1.0 unless the file says otherwise;
    before, an absent key meant no clipping. An upgrade alone changes training.""",
    source="runtime/config.py:269",
    bad='{\n  "train_micro_batch_size_per_gpu": 2,\n  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}\n}\n',
    good={"gradient_clipping": 1.0},
)
def clipping_by_default(bound: Bound, context: Context) -> Iterator[Finding]:
    if not bound.given("gradient_clipping"):
        yield Finding(
            (),
            "`gradient_clipping` is absent, so gradients are clipped to a norm of 1.0",
            'write "gradient_clipping": 1.0, or 0 to switch clipping off',
        )


@rule(
    "DS902",
    "negative-clipping",
    "warning",
    "coerced",
    reads=("gradient_clipping",),
    summary="A negative `gradient_clipping`.",
    explanation="""Any value of 0 or less switches clipping off. 0 says so plainly.""",
    source="runtime/engine.py:3506",
    bad={"gradient_clipping": -1.0},
    good={"gradient_clipping": 0.0},
)
def negative_clipping(bound: Bound, context: Context) -> Iterator[Finding]:
    value = bound.config.gradient_clipping
    if value < 0:
        yield Finding(
            ("gradient_clipping",),
            f"`gradient_clipping` is {value:g}; a negative norm switches clipping off",
            "write 0 if that is meant, else a positive norm",
            at="value",
        )


@rule(
    "DS903",
    "never-prints",
    "error",
    "refused",
    phase="step",
    reads=("steps_per_print",),
    summary="`steps_per_print` of zero.",
    explanation="""DeepSpeed divides the step count by it, so 0 ends the job at the first step with a
    ZeroDivisionError. To print nothing, leave it out.""",
    source="runtime/engine.py:3554",
    bad={"steps_per_print": 0},
    good={"steps_per_print": 100},
)
def never_prints(bound: Bound, context: Context) -> Iterator[Finding]:
    value = bound.config.steps_per_print
    path = ("steps_per_print",)
    if value == 0:
        yield Finding(
            path,
            "`steps_per_print` is 0; DeepSpeed divides by it at the first step",
            "remove it to print nothing",
            at="value",
            fix=remove(path, "remove it"),
        )
    elif value is not None and value < 0:
        yield Finding(
            path,
            f"`steps_per_print` is {value}; DeepSpeed prints every {-value} steps",
            f"write {-value}",
            at="value",
            severity="warning",
            effect="coerced",
        )


@rule(
    "DS904",
    "comms-logger-always-on",
    "warning",
    "ignored",
    reads=("comms_logger",),
    summary="`comms_logger` with `enabled: false`.",
    explanation="""The presence of the block switches the logger on. Nothing reads `enabled`, so false does not
    switch it off.""",
    source="comm/config.py:22",
    bad={"comms_logger": {"enabled": False}},
    good={},
)
def comms_logger_always_on(bound: Bound, context: Context) -> Iterator[Finding]:
    logger = bound.config.comms_logger
    if logger is not None and not logger.enabled:
        yield Finding(
            ("comms_logger", "enabled") if bound.given("comms_logger", "enabled") else ("comms_logger",),
            "`comms_logger` is on because it is there, whatever `enabled` says",
            "remove the block to switch it off",
            fix=remove(("comms_logger",), "remove `comms_logger`", safe=False),
        )


@rule(
    "DS905",
    "predivide-by-zero",
    "error",
    "refused",
    phase="step",
    reads=("gradient_predivide_factor",),
    summary="`gradient_predivide_factor` of zero.",
    explanation="""Gradients are divided by it.""",
    source="runtime/engine.py:3808",
    bad={"gradient_predivide_factor": 0.0},
    good={"gradient_predivide_factor": 1.0},
)
def predivide_by_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    if bound.config.gradient_predivide_factor == 0:
        yield Finding(
            ("gradient_predivide_factor",), "gradients would be divided by zero", "write 1 or remove it", at="value"
        )


@rule(
    "DS906",
    "contiguous-checkpointing-incomplete",
    "error",
    "refused",
    phase="initialize",
    reads=("activation_checkpointing",),
    summary="Contiguous activation checkpoints without what they need.",
    explanation="""One buffer for all saved activations needs them partitioned and needs to know how many layers
    there are; `deepspeed.checkpointing.configure` refuses otherwise.""",
    source="runtime/activation_checkpointing/checkpointing.py:1229",
    bad={"activation_checkpointing": {"contiguous_memory_optimization": True, "partition_activations": True}},
    good={
        "activation_checkpointing": {
            "contiguous_memory_optimization": True,
            "partition_activations": True,
            "number_checkpoints": 12,
        }
    },
)
def contiguous_checkpointing_incomplete(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.activation_checkpointing
    if block is None or not block.contiguous_memory_optimization:
        return
    path = ("activation_checkpointing", "contiguous_memory_optimization")
    if not block.partition_activations:
        yield Finding(
            path,
            "`contiguous_memory_optimization` needs `partition_activations`",
            'add "partition_activations": true, or remove it',
            severity="warning",
        )
    elif block.number_checkpoints is None:
        yield Finding(
            ("activation_checkpointing", "number_checkpoints"),
            "`contiguous_memory_optimization` needs `number_checkpoints`",
            "add it: the number of layers that are checkpointed",
        )
