"""`expert_parallel`: AutoEP, expert parallelism for Hugging Face mixture-of-experts models."""

from typing import Annotated, Literal

from pydantic import Field

from dsconf.models.block import Block, Float, Int, Positive, key

_SOURCE = "module_inject/auto_ep_config.py"

#: The name of an attribute, not a path of several.
Attribute = Annotated[str, Field(pattern=r"^[^.]+$")]


class ExpertParallel(Block):
    """Spread the experts of a Hugging Face model over ranks.

    Only when `enabled` is true does DeepSpeed look at the other keys, and then not before the engine is built.
    """

    actor = "AutoEP (on a model with experts)"
    gate = "enabled"
    reader = "dict"

    enabled: bool = key(False, doc="Replace the model's mixture-of-experts layers.", source=f"{_SOURCE}:48")
    autoep_size: Int = key(
        1, ge=1, doc="Ranks that share the experts of a layer; must divide their number.", source=f"{_SOURCE}:49"
    )
    expert_tensor_parallel_size: Int = key(
        1, ge=1, le=1, doc="Ranks that share one expert; only 1 exists.", source=f"{_SOURCE}:50"
    )
    validate_folding_routing: bool = key(
        False, doc="Check that tensor-parallel ranks route tokens alike.", source=f"{_SOURCE}:51"
    )
    async_split_plan: bool = key(
        False, doc="Exchange the sizes of the token shares in the background.", source=f"{_SOURCE}:52"
    )
    preset_model: Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"] | None = (
        key(None, doc="Model family; null: found out from the model.", source=f"{_SOURCE}:53")
    )
    moe_layer_pattern: str | None = key(
        None, doc="Regular expression for the names of the layers; null: the family's.", source=f"{_SOURCE}:54"
    )
    expert_pattern: Attribute | None = key(
        None, doc="Attribute of a layer that holds its experts; null: the family's.", source=f"{_SOURCE}:55"
    )
    router_pattern: Attribute | None = key(
        None, doc="Attribute of a layer that holds its router; null: the family's.", source=f"{_SOURCE}:56"
    )
    use_grouped_mm: bool = key(
        True, doc="Multiply all experts of a rank in one grouped operation.", source=f"{_SOURCE}:57"
    )
    disable_triton_grouped_mm: bool = key(
        False, doc="Do without DeepSpeed's Triton kernel for it.", source=f"{_SOURCE}:58"
    )
    route_norm: bool | None = key(
        None, doc="Make the weights of a token's experts sum to 1; null: as the family does.", source=f"{_SOURCE}:59"
    )
    route_scale: Float = key(
        1.0,
        doc="Factor on the routing weights, unless `routed_scaling_factor` or the model's configuration has one.",
        source=f"{_SOURCE}:60",
    )
    score_apply: Literal["auto", "pre", "post"] = key(
        "auto",
        auto=True,
        doc="Weight tokens before or after the experts; `auto`: as the family does.",
        source=f"{_SOURCE}:61",
    )
    combine_impl: Literal["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"] = key(
        "auto", auto=True, doc="How the experts' outputs are summed.", source=f"{_SOURCE}:62"
    )
    row_weighting_impl: Literal["auto", "eager", "fused"] = key(
        "auto", auto=True, doc="How rows are weighted under `deepep`.", source=f"{_SOURCE}:63"
    )
    gate_up_impl: Literal["separate", "fused"] = key(
        "separate", doc="Multiply by the gate and up weights in two operations or one.", source=f"{_SOURCE}:64"
    )
    comm_backend: Literal["comm", "deepep"] = key(
        "comm", doc="What carries tokens to their experts: collectives or the DeepEP library.", source=f"{_SOURCE}:65"
    )
    comm_num_sm: Int = key(
        12, ge=1, doc="GPU multiprocessors that DeepEP may use for communication.", source=f"{_SOURCE}:66"
    )
    comm_qp_margin: Int = key(4, ge=0, doc="Spare network queue pairs for DeepEP.", source=f"{_SOURCE}:67")
    comm_max_tokens_per_rank: Int = key(
        0,
        ge=0,
        doc="Most tokens that a rank sends to experts at once: micro batch size times padded sequence length.",
        source=f"{_SOURCE}:68",
    )
    num_expert_groups: Positive | None = key(
        None, doc="Groups into which routing divides the experts; null: as the model says.", source=f"{_SOURCE}:69"
    )
    num_limited_groups: Positive | None = key(
        None, doc="Groups from which a token may choose; null: as the model says.", source=f"{_SOURCE}:70"
    )
    score_func: Literal["auto", "softmax", "sigmoid"] = key(
        "auto",
        auto=True,
        doc="How router outputs become scores; `auto`: as the family does.",
        source=f"{_SOURCE}:71",
    )
    top_k: Int | Literal["auto"] = key(
        "auto", auto=True, doc="Experts per token; `auto`: as the model says.", source=f"{_SOURCE}:72"
    )
    load_balance_coeff: None = key(
        None, doc="Reserved: only null exists, and any other value is refused.", source=f"{_SOURCE}:73"
    )
    routed_scaling_factor: Float | Literal["auto"] = key(
        "auto",
        auto=True,
        doc="Factor on the routing weights; `auto`: from the model's configuration, else `route_scale`.",
        source=f"{_SOURCE}:82",
    )
    expert_w1: Attribute | None = key(
        None, doc="Attribute with an expert's gate (or gate and up) weight; null: the family's.", source=f"{_SOURCE}:83"
    )
    expert_w2: Attribute | None = key(
        None, doc="Attribute with an expert's down weight; null: the family's.", source=f"{_SOURCE}:84"
    )
    expert_w3: Attribute | None = key(
        None,
        doc="Attribute with an expert's up weight; null: it is part of `expert_w1`; absent: the family's.",
        source=f"{_SOURCE}:86",
    )
    num_experts_attr: Attribute | None = key(
        None, doc="Where the model's configuration has the number of experts.", source=f"{_SOURCE}:90"
    )
    top_k_attr: Attribute | None = key(
        None, doc="Where the model's configuration has the number of experts per token.", source=f"{_SOURCE}:91"
    )
    has_shared_experts: bool | None = key(
        None, doc="Whether layers have experts that every token visits; null: as the family.", source=f"{_SOURCE}:92"
    )
    shared_experts_pattern: Attribute | None = key(
        None, doc="Attribute of a layer that holds its shared experts.", source=f"{_SOURCE}:93"
    )
    shared_experts_gate_pattern: Attribute | None = key(
        None, doc="Attribute of a layer that holds the gate of its shared experts.", source=f"{_SOURCE}:94"
    )
    expert_activation: Literal["swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"] | None = key(
        None, doc="Activation inside the experts; null: the family's.", source=f"{_SOURCE}:95"
    )
