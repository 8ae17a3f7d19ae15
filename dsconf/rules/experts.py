"""Rules about `expert_parallel`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Path
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.expert_parallel import ExpertParallel

_EP = "expert_parallel"


@rule(
    "DS943",
    "expert-parallel-refused",
    "error",
    "refused",
    phase="initialize",
    says='ValueError: gate_up_impl="fused" runs the gate and up projections as one torch._grouped_mm, but',
    reads=(_EP, "tensor_parallel.autotp_size", "zero_optimization", "sequence_parallel_size", "compile.deepcompile"),
    summary="Expert parallelism beside a setting that it cannot be combined with.",
    explanation="""Some implementations work with one backend or layout only, groups of ranks have to divide the number
    of ranks, and together with tensor parallelism much is not supported. The engine checks this while it is built,
    before it looks for experts in the model.""",
    source="module_inject/auto_ep_config.py:93",
    bad={"expert_parallel": {"enabled": True, "gate_up_impl": "fused", "use_grouped_mm": False}},
    good={"expert_parallel": {"enabled": True, "gate_up_impl": "fused"}},
)
def expert_parallel_refused(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.expert_parallel
    if block and block.enabled:
        for path, message, help in (*_incompatible(block, context), *_folded(bound, block)):
            yield Finding(path, message, help, at="value" if bound.given(*path) else "key")


def _incompatible(block: ExpertParallel, context: Context) -> Iterator[tuple[Path, str, str]]:
    """Keys of the block that exclude each other."""
    size, world = block.autoep_size, context.world_size
    if world is not None and world % size:
        message = f"`autoep_size` is {size}, which does not divide the {world} rank{'s' * (world > 1)}"
        yield (_EP, "autoep_size"), message, f"write a divisor of {world}"
    if block.comm_backend == "deepep" and block.comm_max_tokens_per_rank == 0:
        message = 'the backend "deepep" needs `comm_max_tokens_per_rank`'
        yield (_EP, "comm_backend"), message, "add it: micro batch size times the longest padded sequence"
    if block.gate_up_impl == "fused" and not block.use_grouped_mm:
        message = '`gate_up_impl` "fused" needs `use_grouped_mm`'
        yield (_EP, "gate_up_impl"), message, "remove `use_grouped_mm`: false, or `gate_up_impl`"
    if block.row_weighting_impl == "fused" and (block.comm_backend != "deepep" or size == 1):
        message = '`row_weighting_impl` "fused" works with the backend "deepep" and `autoep_size` above 1 only'
        yield (_EP, "row_weighting_impl"), message, "remove it"
    if block.combine_impl == "fused_weighted_sum":
        if block.comm_backend == "deepep" and size > 1:
            message = '`combine_impl` "fused_weighted_sum" does not work with the backend "deepep"'
            yield (_EP, "combine_impl"), message, "remove it"
        elif block.score_apply == "pre":
            message = '`combine_impl` "fused_weighted_sum" needs scores applied after the experts'
            yield (_EP, "combine_impl"), message, "remove it, or `score_apply`"
    groups, limited = block.num_expert_groups, block.num_limited_groups
    if groups is not None and limited is not None and limited > groups:
        message = f"a token may use {limited} groups of experts, and there are {groups}"
        yield (_EP, "num_limited_groups"), message, f"write at most {groups}"


def _folded(bound: Bound, block: ExpertParallel) -> Iterator[tuple[Path, str, str]]:
    """What excludes tensor parallelism beside expert parallelism."""
    config = bound.config
    tensors, zero = config.tensor_parallel, config.zero_optimization
    if tensors is None:
        return
    if tensors.preset_model and block.preset_model and tensors.preset_model != block.preset_model:
        message = f'`preset_model` is "{block.preset_model}" here and "{tensors.preset_model}" in `tensor_parallel`'
        yield (_EP, "preset_model"), message, "name the same model family in both"
    if tensors.autotp_size <= 1:
        return
    both = "together with tensor parallelism"
    optimizer, parameters = getattr(zero, "offload_optimizer", None), getattr(zero, "offload_param", None)
    for clashes, path, what in (
        (block.autoep_size == 1, (_EP, "autoep_size"), "an `autoep_size` of 1 does not work"),
        (
            block.async_split_plan and block.autoep_size > 1,
            (_EP, "async_split_plan"),
            "`async_split_plan` does not work",
        ),
        (
            block.combine_impl == "fused_weighted_sum",
            (_EP, "combine_impl"),
            '`combine_impl` "fused_weighted_sum" does not work',
        ),
        (
            config.compile is not None and config.compile.deepcompile,
            ("compile", "deepcompile"),
            "DeepCompile does not work",
        ),
        (
            config.use_data_before_expert_parallelism,
            ("use_data_before_expert_parallelism",),
            "this order of ranks does not work",
        ),
        (
            optimizer is not None and optimizer.device != "none",
            ("zero_optimization", "offload_optimizer"),
            "offloading does not work",
        ),
        (
            parameters is not None and parameters.device != "none",
            ("zero_optimization", "offload_param"),
            "offloading does not work",
        ),
    ):
        if clashes:
            yield path, f"under expert parallelism {what} {both}", "give up one of the two"


@rule(
    "DS944",
    "expert-parallel-option-unread",
    "warning",
    "ignored",
    reads=(_EP,),
    summary="An expert-parallel setting that another one silences.",
    explanation="""Attributes of shared experts count when `has_shared_experts` is true, `top_k_attr` when `top_k` is
    no number, and `comm_num_sm`, `comm_qp_margin` and `comm_max_tokens_per_rank` with the backend `deepep`.""",
    source="module_inject/auto_ep_config.py:303",
    bad={"expert_parallel": {"enabled": True, "top_k": 2, "top_k_attr": "num_experts_per_tok"}},
    good={"expert_parallel": {"enabled": True, "top_k_attr": "num_experts_per_tok"}},
)
def expert_parallel_option_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.expert_parallel
    if block is None or not block.enabled:
        return
    for names, read, needs in (
        (
            ("shared_experts_pattern", "shared_experts_gate_pattern"),
            block.has_shared_experts is True,
            "`has_shared_experts`: true",
        ),
        (("top_k_attr",), not isinstance(block.top_k, int), '`top_k`: "auto"'),
        (
            ("comm_num_sm", "comm_qp_margin", "comm_max_tokens_per_rank"),
            block.comm_backend == "deepep",
            '`comm_backend`: "deepep"',
        ),
    ):
        for name in names:
            path = (_EP, name)
            if not read and bound.given(*path) and getattr(block, name) is not None:
                yield Finding(
                    path,
                    f"`{name}` has no effect without {needs}",
                    f"write {needs}, or remove it",
                    fix=remove(path, "remove it"),
                )
