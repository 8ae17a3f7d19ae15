"""Rules about the engine's own settings: clipping, printing, profiling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Path, Phase
from dsconf.rules.offload import offload_device
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


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
    since="0.19.3",
)
def clipping_by_default(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.reader == "deepspeed" and not bound.given("gradient_clipping"):
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
    says="ZeroDivisionError: integer modulo by zero",
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
    path = ("comms_logger", "enabled")
    if logger is not None and not logger.enabled and bound.given(*path):
        yield Finding(
            path,
            "`comms_logger` is on because it is there, whatever `enabled` says",
            "remove the block to switch it off",
            fix=remove(("comms_logger",), "remove `comms_logger`", safe=False),
        )


@rule(
    "DS906",
    "contiguous-checkpointing-incomplete",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: Must specify the number of layers with contiguous memory checkpointing",
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
            actor="deepspeed.checkpointing.configure",
        )
    elif block.number_checkpoints is None:
        yield Finding(
            ("activation_checkpointing", "number_checkpoints"),
            "`contiguous_memory_optimization` needs `number_checkpoints`",
            "add it: the number of layers that are checkpointed",
            actor="deepspeed.checkpointing.configure",
        )


@rule(
    "DS907",
    "allgather-size-unread",
    "warning",
    "ignored",
    summary="`allgather_size` beside a `zero_optimization` block.",
    explanation="""The key belongs to the form `zero_optimization: true`, from before there were stages. A block has
    `allgather_bucket_size` instead.""",
    source="runtime/zero/config.py:64",
    bad={"allgather_size": 200000000, "zero_optimization": {"stage": 1}},
    good={"zero_optimization": {"stage": 1, "allgather_bucket_size": 200000000}},
)
def allgather_size_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Scalar

    path = ("allgather_size",)
    if bound.given(*path) and not isinstance(bound.node(("zero_optimization",)), Scalar):
        yield Finding(
            path,
            "nothing reads `allgather_size` here",
            "remove it; stages 1 and 2 have `zero_optimization.allgather_bucket_size`",
            fix=remove(path, "remove it"),
        )


@rule(
    "DS908",
    "needs-gpu",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: This op had not been implemented on CPU backend.",
    reads=("optimizer.type", "zero_optimization.stage", "zero_optimization.offload_optimizer"),
    context=Context(device="cpu"),
    summary="A feature that CPUs do not have.",
    explanation="""Some features are written for GPUs: 8-bit parameters of ZeRO++, SuperOffload, ZenFlow under stage 3,
    GPUDirect Storage, and the optimizers Lamb and, not offloaded, Lion. Looked at when the device is known to be a
    CPU.""",
    source="ops/op_builder/cpu/no_impl.py:21",
    bad={"optimizer": {"type": "Lion", "params": {"lr": 0.001}}},
    good={
        "optimizer": {"type": "Lion", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}},
    },
)
def needs_gpu(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.device != "cpu":
        return
    config = bound.config
    optimizer, zero = config.optimizer, config.zero_optimization
    found: list[tuple[Path, str, Phase]] = []
    if optimizer is not None and (
        optimizer.type == "Lamb" or (optimizer.type == "Lion" and offload_device(bound) is None)
    ):
        found.append((("optimizer", "type"), optimizer.type, "initialize"))
    if zero is not None and zero.stage == 3:
        for name in ("zero_quantized_weights", "zero_quantized_nontrainable_weights"):
            if getattr(zero, name):
                found.append((("zero_optimization", name), f"`{name}`", "initialize"))
        if zero.zenflow is not None:
            found.append((("zero_optimization", "zenflow"), "ZenFlow under stage 3", "step"))
        if zero.offload_optimizer is not None and getattr(zero.offload_optimizer, "super_offload", False):
            path = ("zero_optimization", "offload_optimizer", "super_offload")
            found.append((path, "SuperOffload", "initialize"))
    if config.aio is not None and config.aio.use_gds:
        found.append((("aio", "use_gds"), "GPUDirect Storage", "parse"))
    for path, what, phase in found:
        yield Finding(path, f"{what} does not exist on CPUs", "remove it, or run on GPUs", phase=phase)
