"""`zero_optimization`: one type per ZeRO stage, told apart by `stage`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from dsconf.models.block import WRAPS, Block, Float, Int, Positive, Retired, key
from dsconf.models.offload import OptimizerOffload, OptimizerOffload3, ParamOffload

_CONFIG = "runtime/zero/config.py"

Strings = Annotated[list[str], WRAPS]


def _unprefixed(name: str, line: int) -> Retired:
    """DeepSpeed also reads a `stage3_` key under its field name; one spelling is enough for a file."""
    return Retired(name, "renamed", f"{_CONFIG}:{line}", becomes=f"stage3_{name}")


_CPU_DEVICE: dict[Any, Any] = {True: {"device": "cpu"}, False: None}
_REMOVED = "runtime/config.py:119"

_RETIRED = (
    Retired("cpu_offload", "deprecated", f"{_CONFIG}:209", becomes="offload_optimizer", values=_CPU_DEVICE),
    Retired("cpu_offload_param", "deprecated", f"{_CONFIG}:188", becomes="offload_param", values=_CPU_DEVICE),
    Retired("cpu_offload_params", "dead", f"{_CONFIG}:188", becomes="offload_param", values=_CPU_DEVICE),
    Retired(
        "cpu_offload_use_pin_memory",
        "dead",
        f"{_CONFIG}:199",
        advice="write `pin_memory` inside `offload_optimizer` or `offload_param`",
    ),
    Retired(
        "stage3_gather_fp16_weights_on_model_save",
        "deprecated",
        f"{_CONFIG}:287",
        becomes="stage3_gather_16bit_weights_on_model_save",
    ),
    _unprefixed("prefetch_bucket_size", 222),
    _unprefixed("param_persistence_threshold", 228),
    _unprefixed("model_persistence_threshold", 235),
    _unprefixed("max_live_parameters", 245),
    _unprefixed("max_reuse_distance", 251),
    _unprefixed("gather_16bit_weights_on_model_save", 257),
    _unprefixed("module_granularity_threshold", 265),
    _unprefixed("use_all_reduce_for_fetch_params", 273),
    _unprefixed("allgather_sequential", 279),
    Retired("mics_shard_size", "removed", _REMOVED, advice="use `zero_hpz_partition_size` to shard within a node"),
    Retired(
        "mics_hierarchical_params_gather",
        "removed",
        _REMOVED,
        advice="use `zero_hpz_partition_size` to shard within a node",
    ),
    Retired("zeropp_loco_param", "removed", _REMOVED, advice="plain `zero_quantized_gradients` still exists"),
)


class LeafModule(Block):
    """Modules that stage 3 fetches whole instead of looking inside (mixture-of-experts blocks need it)."""

    classes: Strings = key(
        [
            "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
            "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
            "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
        ],
        doc="Classes, by name or dotted path, whose instances are leaves.",
        source="runtime/zero/leaf_module_config.py:23",
    )
    names: Strings = key([], doc="Modules that are leaves, by name.", source="runtime/zero/leaf_module_config.py:24")
    name_suffixes: Strings = key(
        [], doc="Endings of the names of modules that are leaves.", source="runtime/zero/leaf_module_config.py:25"
    )


class ZenFlow(Block):
    """Apply the important gradients at once on the accelerator, the rest later on the host."""

    topk_ratio: Float = key(
        0.1,
        gt=0.0,
        lt=1.0,
        doc="Share of the gradient columns that counts as important.",
        source="runtime/zenflow/zenflow_config.py:15",
    )
    select_strategy: Literal["auto", "step", "epoch"] = key(
        "auto",
        auto=True,
        doc="What decides when important columns are chosen anew.",
        source="runtime/zenflow/zenflow_config.py:18",
    )
    select_interval: Int | Literal["auto"] = key(
        "auto",
        auto=True,
        refuses="str",
        doc="Steps or epochs between two choices.",
        source="runtime/zenflow/zenflow_config.py:22",
    )
    update_interval: Positive | Literal["auto"] = key(
        "auto",
        auto=True,
        refuses="str",
        doc="Steps between two updates from the unimportant gradients; it takes the place of "
        "gradient_accumulation_steps, and its default trains to NaN.",
        source="runtime/zenflow/zenflow_config.py:26",
    )
    overlap_step: bool = key(
        False, doc="Overlap the host's step with the next forward.", source="runtime/zenflow/zenflow_config.py:30"
    )
    offload: bool = key(
        False,
        doc="Offload the selective optimizer's states as well.",
        source="runtime/zenflow/zenflow_config.py:33",
    )
    auto_ratio: Float = key(
        0.99,
        ge=0.0,
        le=1.0,
        doc="Threshold that the automatic strategy works with.",
        source="runtime/zenflow/zenflow_config.py:36",
    )
    full_warm_up_rounds: Int = key(
        0, doc="First rounds in which every gradient is applied.", source="runtime/zenflow/zenflow_config.py:39"
    )
    pt_reserved_cores_perc: Float = key(
        0.5,
        ge=0.0,
        le=1.0,
        doc="Share of the CPU cores kept for PyTorch's own threads.",
        source="runtime/zenflow/zenflow_config.py:42",
    )


class Zero0(Block):
    """ZeRO is off: every rank holds everything, gradients are averaged as in plain data parallelism."""

    tag = "stage"
    retired = _RETIRED

    stage: Literal[0] = key(0, doc="ZeRO stage; 0 shards nothing.", source=f"{_CONFIG}:95")


class _Sharded(Block):
    """What stages 1 to 3 share."""

    tag = "stage"
    retired = _RETIRED

    contiguous_gradients: bool = key(
        True,
        doc="Copy gradients into one buffer as they appear, which avoids fragmentation.",
        source=f"{_CONFIG}:102",
    )
    reduce_scatter: bool = key(
        True,
        doc="Average gradients with reduce or reduce-scatter instead of all-reduce.",
        source=f"{_CONFIG}:108",
    )
    reduce_bucket_size: Int = key(
        500_000_000,
        gt=0,
        doc="Gradient elements reduced at a time; the buffers take memory on the accelerator.",
        source=f"{_CONFIG}:113",
    )
    overlap_comm: bool | None = key(
        None,
        doc="Overlap the reduction of gradients with the backward pass; unset means on at stage 3, else off.",
        source=f"{_CONFIG}:138",
    )
    load_from_fp32_weights: bool = key(
        True,
        doc="Take master weights from the checkpoint's fp32 copies instead of its 16-bit ones.",
        source=f"{_CONFIG}:150",
    )
    legacy_stage1: bool = key(
        False, doc="The first stage-1 code, which no longer exists; true is refused.", source=f"{_CONFIG}:303"
    )
    zenflow: ZenFlow | None = key(
        None, nullable=True, doc="Settings of ZenFlow; presence switches it on.", source=f"{_CONFIG}:179"
    )


class _Zero12(_Sharded):
    """What stages 1 and 2 share."""

    use_multi_rank_bucket_allreduce: bool = key(
        True, doc="Reduce the buckets of several ranks in one all-reduce.", source=f"{_CONFIG}:119"
    )
    allgather_partitions: bool = key(
        True, dead=True, doc="Once chose between all-gather and broadcasts.", source=f"{_CONFIG}:126"
    )
    allgather_bucket_size: Int = key(
        500_000_000,
        ge=0,
        doc="Parameter elements gathered at a time after the step; must be even.",
        source=f"{_CONFIG}:132",
    )
    compute_grad_norm: bool = key(
        True,
        doc="Compute the global gradient norm; off needs clipping off.",
        source=f"{_CONFIG}:143",
    )
    elastic_checkpoint: bool = key(
        False, doc="Old way to load a checkpoint on another number of ranks.", source=f"{_CONFIG}:158"
    )
    offload_optimizer: OptimizerOffload | None = key(
        None, nullable=True, doc="Where optimizer states live.", source=f"{_CONFIG}:171"
    )
    ignore_unused_parameters: bool = key(
        True, doc="Go on when a parameter got no gradient; false raises.", source=f"{_CONFIG}:294"
    )
    round_robin_gradients: bool = key(
        False,
        doc="Spread the copying of gradients to the host over the ranks.",
        source=f"{_CONFIG}:309",
    )
    parameter_alignment: bool = key(
        False,
        doc="Pad flat buffers so that each parameter starts at a 16-byte boundary.",
        source=f"{_CONFIG}:317",
    )


class Zero1(_Zero12):
    """Optimizer states are sharded over the ranks."""

    stage: Literal[1] = key(doc="ZeRO stage; 1 shards optimizer states.", source=f"{_CONFIG}:95")


class Zero2(_Zero12):
    """Optimizer states and gradients are sharded over the ranks."""

    stage: Literal[2] = key(doc="ZeRO stage; 2 shards optimizer states and gradients.", source=f"{_CONFIG}:95")


class Zero3(_Sharded):
    """Optimizer states, gradients and parameters are sharded over the ranks."""

    stage: Literal[3] = key(
        doc="ZeRO stage; 3 shards optimizer states, gradients and parameters.", source=f"{_CONFIG}:95"
    )
    offload_optimizer: OptimizerOffload3 | None = key(
        None, nullable=True, doc="Where optimizer states live.", source=f"{_CONFIG}:171"
    )
    offload_param: ParamOffload | None = key(
        None, nullable=True, doc="Where parameters live while no layer needs them.", source=f"{_CONFIG}:164"
    )
    sub_group_size: Int = key(
        1_000_000_000,
        ge=0,
        doc="Parameter elements that the optimizer steps through at a time.",
        source=f"{_CONFIG}:182",
    )
    stage3_prefetch_bucket_size: Int = key(
        50_000_000, ge=0, doc="Parameter elements fetched ahead of use.", source=f"{_CONFIG}:222"
    )
    stage3_param_persistence_threshold: Int = key(
        100_000,
        ge=0,
        doc="Parameters with fewer elements than this are never sharded.",
        source=f"{_CONFIG}:228",
    )
    stage3_model_persistence_threshold: Int = key(
        9_223_372_036_854_775_807,
        ge=0,
        doc="Most parameter elements, over the whole model, that may stay unsharded.",
        source=f"{_CONFIG}:235",
    )
    stage3_max_live_parameters: Int = key(
        1_000_000_000,
        ge=0,
        doc="Most parameter elements that a rank holds gathered at once.",
        source=f"{_CONFIG}:245",
    )
    stage3_max_reuse_distance: Int = key(
        1_000_000_000,
        ge=0,
        doc="Keep a parameter gathered when it is needed again within this many elements.",
        source=f"{_CONFIG}:251",
    )
    stage3_gather_16bit_weights_on_model_save: bool = key(
        False,
        doc="Gather the whole 16-bit model when it is saved for use elsewhere; without it nothing is written.",
        source=f"{_CONFIG}:257",
    )
    stage3_module_granularity_threshold: Int = key(
        0,
        doc="Modules with fewer parameters per descendant than this are fetched whole.",
        source=f"{_CONFIG}:265",
    )
    stage3_use_all_reduce_for_fetch_params: bool = key(
        False, doc="Fetch parameters with all-reduce instead of all-gather.", source=f"{_CONFIG}:273"
    )
    stage3_allgather_sequential: bool = key(
        False,
        doc="Gather parameters one by one: less memory, and prefetching is reduced to one element.",
        source=f"{_CONFIG}:279",
    )
    zero_hpz_partition_size: Int = key(
        1,
        ge=0,
        doc="Ranks that share a second copy of the parameters (ZeRO++); the ranks of a node as a rule.",
        source=f"{_CONFIG}:324",
    )
    zero_quantized_weights: bool = key(False, doc="Gather parameters in 8 bits (ZeRO++).", source=f"{_CONFIG}:328")
    zero_quantized_nontrainable_weights: bool = key(
        False, doc="Keep frozen parameters in 8 bits (ZeRO++).", source=f"{_CONFIG}:333"
    )
    zero_quantized_gradients: bool = key(False, doc="Reduce gradients in 4 bits (ZeRO++).", source=f"{_CONFIG}:340")
    memory_efficient_linear: bool = key(
        True, doc="Replace torch's linear function by one that keeps fewer tensors.", source=f"{_CONFIG}:346"
    )
    pipeline_loading_checkpoint: bool = key(False, doc="Load a checkpoint rank after rank.", source=f"{_CONFIG}:353")
    override_module_apply: bool = key(
        True,
        doc="Let `Module.apply` see whole parameters while the model is built under zero.Init.",
        source=f"{_CONFIG}:355",
    )
    log_trace_cache_warnings: bool = key(
        False, doc="Log when the recorded order of parameters no longer holds.", source=f"{_CONFIG}:360"
    )
    enable_sanity_checks: bool = key(False, doc="Check internal invariants, for debugging.", source=f"{_CONFIG}:365")
    save_muon_momentum_buffer_in_memory: bool = key(
        False, doc="Keep Muon's momentum in memory instead of on the drive.", source=f"{_CONFIG}:370"
    )
    leaf_module: LeafModule | None = key(
        None, nullable=True, doc="Modules that are fetched whole.", source=f"{_CONFIG}:377"
    )


ZeroOptimization = Annotated[Zero0 | Zero1 | Zero2 | Zero3, Field(discriminator="stage")]
