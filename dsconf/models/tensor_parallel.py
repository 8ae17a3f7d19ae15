"""`tensor_parallel`: AutoTP, tensor parallelism for training."""

from typing import Annotated, Any, Literal

from pydantic import Field

from dsconf.models.block import FOLDED, WHOLE, Block, Int, Positive, Retired, key

_SOURCE = "runtime/tensor_parallel/config.py"
_RULES = "module_inject/autotp_config.py"


class Tp(Block):
    """Details of the tensor-parallel group."""

    tp_size: Int = key(
        1, doc="Tensor-parallel degree once more: 1 or the same as `autotp_size`.", source=f"{_SOURCE}:21"
    )
    tp_grain_size: Int = key(1, gt=0, doc="Shards are multiples of so many rows.", source=f"{_SOURCE}:24")
    mpu: Any = key(None, dead=True, doc="Unread; pass `mpu` to `deepspeed.initialize`.", source=f"{_SOURCE}:29")
    tp_group: None = key(None, doc="A process group, which only Python code can pass.", source=f"{_SOURCE}:35")


class LayerSpec(Block):
    """A rule: which parameters are split, and how."""

    reader = "dict"

    patterns: list[str] = key(
        [],
        doc="Regular expressions matched from the start of a parameter's name, which ends in `.weight`.",
        source=f"{_RULES}:302",
    )
    partition_type: Annotated[Literal["column", "row", "skip"], FOLDED] = key(
        "column", doc="Split the output, split the input, or keep the parameter whole.", source=f"{_RULES}:289"
    )
    shape: list[Annotated[int, Field(ge=-1), WHOLE] | list[Positive]] | None = key(
        None,
        doc="Shape in which to see the weight before it is split, for fused weights: -1 is inferred, a list of "
        "sizes stands for parts of unequal size.",
        source=f"{_RULES}:296",
    )
    partition_dim: Int | None = key(
        None, doc="Axis to split; null: 0 for `column`, 1 for `row`.", source=f"{_RULES}:307"
    )
    model_types: list[str] | None = key(
        None, doc="Model types to which the rule applies; null: all.", source=f"{_RULES}:308"
    )
    gather_output: bool = key(
        False, doc="Gather the output of a column-split layer on every rank.", source=f"{_RULES}:304"
    )
    grad_allreduce: bool = key(
        False, doc="Sum the gradients of a whole (`skip`) parameter over the group.", source=f"{_RULES}:305"
    )


class PartitionConfig(Block):
    """Rules of one's own for splitting layers."""

    reader = "dict"

    tp_size: Int = key(1, dead=True, doc="Overwritten by `autotp_size`.", source=f"{_RULES}:312")
    layer_specs: list[LayerSpec] = key([], doc="The rules; the first that matches counts.", source=f"{_RULES}:287")
    embedding_partition_dim: Int = key(1, dead=True, doc="Unread.", source=f"{_RULES}:314")
    lm_head_patterns: list[str] = key(
        ["lm_head", "embed_out"], doc="Names of the layers that are output heads.", source=f"{_RULES}:315"
    )
    use_default_specs: bool = key(
        True, doc="Add the rules of `preset_model` after these, instead of dropping them.", source=f"{_RULES}:316"
    )
    strict_mode: bool = key(False, doc="Refuse linear layers that no rule matches.", source=f"{_RULES}:317")


class TensorParallel(Block):
    """Split the layers of a model over ranks."""

    actor = "AutoTP"
    retired = (
        Retired("tensor_parallel", "renamed", f"{_SOURCE}:59", becomes="tp"),
        Retired("replace_with_kernel_inject", "renamed", f"{_SOURCE}:111", becomes="kernel_inject"),
        Retired(
            "dtype",
            "removed",
            f"{_SOURCE}:40",
            advice="It takes a `torch.dtype`, which a file cannot hold; `bf16` and `fp16` decide the type.",
        ),
    )

    autotp_size: Int = key(0, doc="Tensor-parallel degree; 0 and 1: no tensor parallelism.", source=f"{_SOURCE}:45")
    tp_overlap_comm: bool = key(
        False, doc="Overlap the all-reduce of the backward pass with computation.", source=f"{_SOURCE}:50"
    )
    vocab_parallel_lm_head: bool | None = key(
        None,
        doc="Split the output head by vocabulary and compute the loss on the parts; null: if the model's own plan "
        "asks for it and the head is tied to the embedding.",
        source=f"{_SOURCE}:53",
    )
    vocab_parallel_ce_backend: Literal["torch", "liger"] = key(
        "torch", doc="What computes the cross-entropy of a split head.", source=f"{_SOURCE}:56"
    )
    tp: Tp | None = key(None, doc="Details of the group.", source=f"{_SOURCE}:59")
    injection_policy_tuple: list[Any] | None = key(
        None, dead=True, doc="Overwritten while layers are replaced.", source=f"{_SOURCE}:65"
    )
    partition_config: PartitionConfig | None = key(
        None, doc="Rules of one's own for splitting layers.", source=f"{_SOURCE}:68", nullable=True
    )
    preset_model: Annotated[
        Literal["llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3"] | None, FOLDED
    ] = key(
        None,
        doc="Built-in rules for a model family; null: the model's own plan, or else what DeepSpeed makes of it.",
        source=f"{_SOURCE}:95",
    )
    keep_module_on_host: bool = key(False, doc="Leave the split weights in host memory.", source=f"{_SOURCE}:103")
    kernel_inject: bool = key(
        False, dead=True, doc="Inference kernels; without effect in training.", source=f"{_SOURCE}:111"
    )
