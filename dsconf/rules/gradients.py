"""Rules about how gradients are averaged, accumulated and measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.data_types import accumulates_in_fp32
from dsconf.rules.rule import Context, Finding, remove, rule, show
from dsconf.rules.zero import stage_place

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.config import DeepSpeedConfig


@rule(
    "DS308",
    "prescale-with-reduce-scatter",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: pre-scale gradients is not yet supported with ZeRO-2 with reduce scatter enabled",
    reads=("zero_optimization.stage", "zero_optimization.reduce_scatter", "prescale_gradients"),
    summary="Gradients scaled before the sum, with reduce-scatter.",
    explanation="""Under stages 2 and 3 the reduce-scatter path averages by itself: `prescale_gradients` and a
    `gradient_predivide_factor` other than 1 are refused while `reduce_scatter` is on, which it is by default.""",
    source="runtime/zero/stage_1_and_2.py:346",
    bad={"prescale_gradients": True, "zero_optimization": {"stage": 2}},
    good={"prescale_gradients": True, "zero_optimization": {"stage": 2, "reduce_scatter": False}},
)
def prescale_with_reduce_scatter(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero = config.zero_optimization
    if zero is None or not (zero.stage == 2 or zero.stage == 3) or not zero.reduce_scatter:
        return
    if config.gradient_allreduce_op == "sum" and zero.stage == 2:
        return
    for name, wrong in (
        ("prescale_gradients", config.prescale_gradients),
        ("gradient_predivide_factor", config.gradient_predivide_factor != 1),
    ):
        if wrong:
            yield Finding(
                (name,),
                f"`{name}: {show(getattr(config, name))}` is refused at stage {zero.stage} with `reduce_scatter` on",
                "remove it, or set `zero_optimization.reduce_scatter` to false",
                at="value",
                related=stage_place(("zero_optimization", name)),
            )


@rule(
    "DS309",
    "sum-under-stage-3",
    "error",
    "refused",
    phase="parse",
    says="ValueError: gradient_allreduce_op='sum' is not supported with ZeRO stage 3",
    reads=("zero_optimization.stage", "gradient_allreduce_op"),
    summary='`gradient_allreduce_op: "sum"` under stage 3.',
    explanation="""Stage 3 can only average gradients.""",
    source="runtime/config.py:694",
    bad={"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}},
    good={"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}},
)
def sum_under_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    if bound.config.gradient_allreduce_op == "sum" and bound.config.zero_stage == 3:
        yield Finding(
            ("gradient_allreduce_op",),
            'stage 3 refuses `gradient_allreduce_op: "sum"`',
            'write "mean", or use a lower stage',
            at="value",
            related=(Related(("zero_optimization", "stage"), "the stage is set here"),),
        )


@rule(
    "DS311",
    "grad-norm-off-with-clipping",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: zero_optimization.compute_grad_norm=false requires gradient_clipping=0",
    reads=(
        "zero_optimization.stage",
        "zero_optimization.compute_grad_norm",
        "zero_optimization.offload_optimizer",
        "gradient_clipping",
        "bf16.enabled",
        "data_types",
    ),
    summary="Gradient norms switched off while clipping needs them.",
    explanation="""Clipping is by the global norm, and on at 1.0 unless it is set to 0. `compute_grad_norm:
    false` needs it off, and the optimizer on the accelerator.""",
    source="runtime/zero/stage_1_and_2.py:212",
    bad={"zero_optimization": {"stage": 2, "compute_grad_norm": False}},
    good={"gradient_clipping": 0.0, "zero_optimization": {"stage": 2, "compute_grad_norm": False}},
)
def grad_norm_off_with_clipping(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero = config.zero_optimization
    if zero is None or not (zero.stage == 1 or zero.stage == 2) or zero.compute_grad_norm:
        return
    path = ("zero_optimization", "compute_grad_norm")
    if config.gradient_clipping > 0:
        given = "gradient_clipping" in config.model_fields_set
        yield Finding(
            path,
            f"`compute_grad_norm: false` needs clipping off; it is {config.gradient_clipping:g}"
            + ("" if given else " by default"),
            "set `gradient_clipping` to 0, or remove `compute_grad_norm`",
            related=(Related(("gradient_clipping",), "clipping is set here"),) if given else (),
        )
    elif zero.offload_optimizer is not None and zero.offload_optimizer.device != "none":
        yield Finding(
            path,
            "`compute_grad_norm: false` is refused with an offloaded optimizer",
            "remove it, or keep the optimizer on the accelerator",
        )
    elif zero.stage == 1 and accumulates_in_fp32(config):
        yield Finding(
            path,
            "`compute_grad_norm: false` is refused at stage 1 with bf16 parameters and fp32 gradients",
            "remove it, or use stage 2",
            related=(Related(("data_types", "grad_accum_dtype"), "gradients are kept in fp32 here"),),
        )


def _scaling_unread(config: DeepSpeedConfig) -> str:
    """Why nothing reads how gradients are scaled before their sum; empty when something does."""
    zero = config.zero_optimization
    if config.gradient_allreduce_op == "sum":
        return 'gradients are summed (`gradient_allreduce_op: "sum"`), not averaged'
    if zero is not None and zero.stage == 1 and zero.reduce_scatter:
        return "stage 1 averages gradients by itself while `reduce_scatter` is on, its default"
    return ""


@rule(
    "DS312",
    "prescale-unread",
    "warning",
    "ignored",
    reads=("zero_optimization.stage", "zero_optimization.reduce_scatter", "gradient_allreduce_op"),
    summary="Scaling of gradients before the sum, where nothing scales them.",
    explanation="""`prescale_gradients` and `gradient_predivide_factor` shift the division by the number of ranks in
    front of the sum. Stage 1 reads neither while `reduce_scatter` is on, and with
    `gradient_allreduce_op: "sum"` nothing is divided at all.""",
    source="runtime/zero/stage_1_and_2.py:1618",
    bad={"prescale_gradients": True, "zero_optimization": {"stage": 1}},
    good={"prescale_gradients": True, "zero_optimization": {"stage": 1, "reduce_scatter": False}},
)
def prescale_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    why = _scaling_unread(config)
    if not why or config.zero_stage == 3:
        return
    for name, wrong in (
        ("prescale_gradients", config.prescale_gradients),
        ("gradient_predivide_factor", config.gradient_predivide_factor != 1),
    ):
        if wrong:
            yield Finding((name,), f"`{name}` has no effect: {why}", "remove it", fix=remove((name,), "remove it"))


@rule(
    "DS313",
    "unmanaged-accumulation-with-overlap",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: managed_gradient_accumulation=False supports ZeRO overlap_comm only with ZeRO stage 2",
    reads=("managed_gradient_accumulation", "zero_optimization.stage"),
    summary="`managed_gradient_accumulation: false` with `overlap_comm` below stage 2.",
    explanation="""When the script decides itself which call of `step()` updates the weights, gradients may be
    reduced during the backward pass at stages 2 and 3 only. DeepSpeed looks at `overlap_comm` even at stage 0.""",
    source="runtime/engine.py:2031",
    bad={"managed_gradient_accumulation": False, "zero_optimization": {"stage": 1, "overlap_comm": True}},
    good={"managed_gradient_accumulation": False, "zero_optimization": {"stage": 2, "overlap_comm": True}},
)
def unmanaged_accumulation_with_overlap(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    overlap = ("zero_optimization", "overlap_comm")
    if config.managed_gradient_accumulation or config.zero_stage > 1:
        return
    if bound.is_true(overlap):
        yield Finding(
            ("managed_gradient_accumulation",),
            f"`managed_gradient_accumulation: false` is refused with `overlap_comm` at stage {config.zero_stage}",
            "set `overlap_comm` to false, or `stage` to 2 or 3",
            at="value",
            related=(Related(overlap, "communication is overlapped here"),),
        )


@rule(
    "DS905",
    "predivide-by-zero",
    "error",
    "refused",
    phase="step",
    says="ZeroDivisionError: float division by zero",
    reads=("gradient_predivide_factor", "zero_optimization.stage", "zero_optimization.reduce_scatter"),
    summary="`gradient_predivide_factor` of zero.",
    explanation="""Gradients are divided by it.""",
    source="runtime/engine.py:3808",
    bad={"gradient_predivide_factor": 0.0},
    good={"gradient_predivide_factor": 1.0},
)
def predivide_by_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero = config.zero_optimization
    refused = zero is not None and zero.stage > 1 and getattr(zero, "reduce_scatter", False)
    if config.gradient_predivide_factor == 0 and not refused and not _scaling_unread(config):
        yield Finding(
            ("gradient_predivide_factor",), "gradients would be divided by zero", "write 1 or remove it", at="value"
        )
