"""Rules about ZeRO: what belongs to which stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from dsconf.diagnostic import Path, Related
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.blocks import BlockType
    from dsconf.facts import Bound, Misfit

_ALLGATHER = ("allgather_partitions", "allgather_bucket_size")


def stage_of(block: BlockType) -> Any:
    """The stage that a ZeRO type stands for; None for any other block."""
    return block.tag_value if block.tag == "stage" else None


def _misfits(bound: Bound) -> Iterator[tuple[Misfit, str, int]]:
    """Keys of another stage: the fact, the key, the stage that the file has."""
    from dsconf.facts import Misfit

    for fact in bound.of(Misfit):
        stage = stage_of(fact.block)
        if stage is not None:
            yield fact, str(fact.path[-1]), stage


def _stages(fact: Misfit) -> str:
    stages = sorted(stage_of(sibling) for sibling in fact.siblings)
    return f"stage {stages[0]}" if len(stages) == 1 else f"stages {', '.join(map(str, stages[:-1]))} and {stages[-1]}"


def stage_place(path: Path) -> tuple[Related, ...]:
    return (Related((*path[:-1], "stage"), "the stage is set here"),)


def _is_off(value: Any) -> bool:
    """Whether a block or switch is switched off, so that the author does not count on it."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get("device", "none") == "none"
    return value is None or value is False


@rule(
    "DS301",
    "allgather-under-stage-3",
    "error",
    "ignored",
    block=True,
    summary="Settings of the all-gather of stages 1 and 2 under stage 3.",
    explanation="""Stages 1 and 2 gather updated parameters after the step, in buckets. Stage 3 gathers each
    parameter when a layer needs it and reads neither key; what bounds its buffers are
    `stage3_prefetch_bucket_size` and `stage3_max_live_parameters`.""",
    source="runtime/engine.py:2751",
    bad={"zero_optimization": {"stage": 3, "allgather_partitions": True, "allgather_bucket_size": 200000000}},
    good={"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 50000000}},
)
def allgather_under_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    for fact, name, stage in _misfits(bound):
        if stage == 3 and name in _ALLGATHER:
            bucket = name == "allgather_bucket_size"
            yield Finding(
                fact.path,
                f"`{name}` has no effect under stage 3",
                "remove it; set `stage3_prefetch_bucket_size` to bound the buffers of stage 3"
                if bucket
                else "remove it: stage 3 gathers parameters layer by layer",
                related=stage_place(fact.path),
                fix=remove(fact.path, f"remove `{name}`"),
            )


@rule(
    "DS302",
    "allgather-partitions-unread",
    "info",
    "ignored",
    block=True,
    summary="`allgather_partitions`, which no stage reads any more.",
    explanation="""Guides still set it for stages 1 and 2. In this DeepSpeed nothing reads it at any stage:
    parameters are always gathered.""",
    source="runtime/engine.py:1745",
    bad={"zero_optimization": {"stage": 2, "allgather_partitions": True}},
    good={"zero_optimization": {"stage": 2}},
)
def allgather_partitions_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    for path, block in _zero_blocks(bound):
        if (block.stage == 1 or block.stage == 2) and "allgather_partitions" in block.model_fields_set:
            here = (*path, "allgather_partitions")
            yield Finding(
                here,
                "nothing reads `allgather_partitions` any more",
                "remove it",
                fix=remove(here, "remove it"),
                severity=None if block.allgather_partitions else "warning",
            )


def _zero_blocks(bound: Bound) -> Iterator[tuple[Path, Any]]:
    """The ZeRO block, where there is one."""
    zero = bound.config.zero_optimization
    if zero is not None:
        yield ("zero_optimization",), zero


@rule(
    "DS303",
    "stage-3-option-below-stage-3",
    "error",
    "ignored",
    block=True,
    summary="A setting of stage 3 in a file of a lower stage.",
    explanation="""DeepSpeed checks the value and then never reads it below stage 3. The author either meant
    stage 3 or has left the key behind; the file does something else than it says.""",
    source="runtime/engine.py:2670",
    bad={"zero_optimization": {"stage": 2, "stage3_gather_16bit_weights_on_model_save": True}},
    good={"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
)
def stage_3_option_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    for fact, name, stage in _misfits(bound):
        if stage < 3 and name != "offload_param" and {stage_of(item) for item in fact.siblings} == {3}:
            yield Finding(
                fact.path,
                f"`{name}` has no effect at stage {stage}; only stage 3 reads it",
                "set `stage` to 3, or remove it",
                related=stage_place(fact.path),
                fix=remove(fact.path, f"remove `{name}`"),
                severity="warning" if _is_off(fact.value) else None,
                effect="refused" if (loading := name == "pipeline_loading_checkpoint" and fact.value is True) else None,
                phase="load" if loading else None,
            )


@rule(
    "DS304",
    "option-without-zero",
    "warning",
    "ignored",
    block=True,
    summary="A setting of ZeRO while ZeRO is off.",
    explanation="""At stage 0, which is also what an absent `stage` means, every rank holds everything and
    nothing else in the block is read.""",
    source="runtime/engine.py:2655",
    bad={"zero_optimization": {"stage": 0, "reduce_bucket_size": 50000000}},
    good={"zero_optimization": {"stage": 1, "reduce_bucket_size": 50000000}},
)
def option_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    for fact, name, stage in _misfits(bound):
        if stage == 0 and name != "offload_optimizer" and len(fact.siblings) > 1:
            if name == "compute_grad_norm" and fact.value is False:
                yield _grad_norm_refused(fact, stage)
                continue
            if name == "zenflow" and fact.value is not None:
                continue
            forgotten = not bound.given(*fact.path[:-1], "stage")
            why = "no `stage` is set, so ZeRO is off" if forgotten else "ZeRO is off at stage 0"
            yield Finding(
                fact.path,
                f"`{name}` has no effect: {why}",
                f"set `stage` to a stage that reads it ({_stages(fact)}), or remove it",
                related=() if forgotten else stage_place(fact.path),
                fix=remove(fact.path, f"remove `{name}`"),
                severity="error" if forgotten and fact.block.name == "Zero0" else None,
            )


@rule(
    "DS305",
    "option-of-stages-1-and-2",
    "warning",
    "ignored",
    block=True,
    summary="A setting that only stages 1 and 2 read, under stage 3.",
    explanation="""Stage 3 works differently and is not given this setting. `compute_grad_norm: false` is
    refused there.""",
    source="runtime/engine.py:2751",
    bad={"zero_optimization": {"stage": 3, "round_robin_gradients": True}},
    good={"zero_optimization": {"stage": 2, "round_robin_gradients": True}},
)
def option_of_stages_1_and_2(bound: Bound, context: Context) -> Iterator[Finding]:
    for fact, name, stage in _misfits(bound):
        if stage != 3 or name in _ALLGATHER or name == "offload_optimizer":
            continue
        if name == "compute_grad_norm" and fact.value is False:
            yield _grad_norm_refused(fact, stage)
            continue
        yield Finding(
            fact.path,
            f"`{name}` has no effect under stage 3",
            "remove it, or use stage 1 or 2",
            related=stage_place(fact.path),
            fix=remove(fact.path, f"remove `{name}`"),
        )


def _grad_norm_refused(fact: Misfit, stage: int) -> Finding:
    return Finding(
        fact.path,
        f"`compute_grad_norm: false` is refused at stage {stage}; only stages 1 and 2 know it",
        "remove it",
        related=stage_place(fact.path),
        fix=remove(fact.path, "remove it"),
        severity="error",
        effect="refused",
        phase="parse",
    )


@rule(
    "DS306",
    "reduce-scatter-under-stage-3",
    "warning",
    "advice",
    reads=("zero_optimization.stage", "zero_optimization.reduce_scatter"),
    summary="`reduce_scatter` under stage 3, where it is read.",
    explanation="""Some guides call `reduce_scatter` unused under stage 3. It is not: stage 3 reads it. False
    makes it all-reduce whole gradients, which costs about twice the traffic; true is the default.""",
    source="runtime/zero/stage3.py:392",
    bad={"zero_optimization": {"stage": 3, "reduce_scatter": False}},
    good={"zero_optimization": {"stage": 3}},
)
def reduce_scatter_under_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is not None and zero.stage == 3 and "reduce_scatter" in zero.model_fields_set:
        optimizer = bound.config.optimizer
        muon = optimizer is not None and optimizer.type == "Muon"
        if not zero.reduce_scatter and (muon or zero.zero_quantized_gradients):
            return
        yield Finding(
            ("zero_optimization", "reduce_scatter"),
            "stage 3 reads `reduce_scatter`, although guides call it unused there; "
            + ("true is its default" if zero.reduce_scatter else "false sends whole gradients to every rank"),
            "remove it" if zero.reduce_scatter else "remove it, unless something else in the file needs it off",
        )


@rule(
    "DS307",
    "odd-allgather-bucket",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: allgather_bucket_size must be a multiple of nccl_start_alignment_factor, 2",
    reads=("zero_optimization.stage", "zero_optimization.allgather_bucket_size"),
    summary="An odd `allgather_bucket_size`.",
    explanation="""Stages 1 and 2 align their buffers to pairs of elements and refuse an odd bucket.""",
    source="runtime/zero/stage_1_and_2.py:387",
    bad={"zero_optimization": {"stage": 2, "allgather_bucket_size": 200000001}},
    good={"zero_optimization": {"stage": 2, "allgather_bucket_size": 200000000}},
)
def odd_allgather_bucket(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is not None and (zero.stage == 1 or zero.stage == 2) and zero.allgather_bucket_size % 2:
        yield Finding(
            ("zero_optimization", "allgather_bucket_size"),
            f"`allgather_bucket_size` is {zero.allgather_bucket_size}, which is odd",
            f"write {zero.allgather_bucket_size + 1}",
            at="value",
        )


@rule(
    "DS310",
    "legacy-stage-1",
    "error",
    "refused",
    phase="initialize",
    says="Exception: The deprecated version of ZeRO Stage 1 is not supported in deepspeed >= 0.5.9.",
    reads=("zero_optimization.stage", "zero_optimization.legacy_stage1"),
    summary="The first stage-1 code, which no longer exists.",
    explanation="""`legacy_stage1: true` asks for code that was removed; every stage above 0 refuses it.""",
    source="runtime/engine.py:2650",
    bad={"zero_optimization": {"stage": 1, "legacy_stage1": True}},
    good={"zero_optimization": {"stage": 1}},
)
def legacy_stage_1(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is not None and zero.stage != 0 and zero.legacy_stage1:
        path = ("zero_optimization", "legacy_stage1")
        yield Finding(path, "the old stage-1 code no longer exists", "remove it", fix=remove(path, "remove it"))


@rule(
    "DS314",
    "quantized-weights-with-autocast",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: Cannot enable both torch autocast and zero quantized weights",
    context=Context(zero_init=False),
    reads=("torch_autocast.enabled", "zero_optimization.stage"),
    summary="8-bit parameters of ZeRO++ together with `torch_autocast`.",
    explanation="""Autocast keeps parameters in fp32 and casts them layer by layer; `zero_quantized_weights` gathers
    them in 8 bits. DeepSpeed refuses the two together, even at stages that do not quantize.""",
    source="runtime/torch_autocast.py:32",
    bad={
        "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 3, "zero_quantized_weights": True},
    },
    good={"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "zero_optimization": {"stage": 3}},
)
def quantized_weights_with_autocast(bound: Bound, context: Context) -> Iterator[Finding]:
    autocast = bound.config.torch_autocast
    path = ("zero_optimization", "zero_quantized_weights")
    if autocast is None or not autocast.enabled or bound.config.zero_stage == 0:
        return
    if bound.is_true(path):
        yield Finding(
            path,
            "`zero_quantized_weights` and `torch_autocast` exclude each other",
            "remove it, or use `bf16` instead of `torch_autocast`",
            related=(Related(("torch_autocast", "enabled"), "autocast is switched on here"),),
        )


@rule(
    "DS315",
    "quantized-gradients-without-reduce-scatter",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: when enable all_to_all_reduce, reduce_scatter should also be enabled for data type checks.",
    reads=("zero_optimization.stage", "zero_optimization.reduce_scatter", "zero_optimization.zero_quantized_gradients"),
    summary="4-bit gradients of ZeRO++ with `reduce_scatter` off.",
    explanation="""`zero_quantized_gradients` is a way to reduce and scatter gradients, so it needs `reduce_scatter`,
    which is on by default.""",
    source="runtime/zero/stage3.py:390",
    bad={"zero_optimization": {"stage": 3, "zero_quantized_gradients": True, "reduce_scatter": False}},
    good={"zero_optimization": {"stage": 3, "zero_quantized_gradients": True}},
)
def quantized_gradients_without_reduce_scatter(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is not None and zero.stage == 3 and zero.zero_quantized_gradients and not zero.reduce_scatter:
        yield Finding(
            ("zero_optimization", "zero_quantized_gradients"),
            "`zero_quantized_gradients` needs `reduce_scatter`, which is off",
            "remove `reduce_scatter`, or remove `zero_quantized_gradients`",
            related=(Related(("zero_optimization", "reduce_scatter"), "it is switched off here"),),
        )
