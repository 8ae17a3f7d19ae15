"""`weight_quantization`: integer weights for inference."""

from typing import Any, Literal

from dsconf.models.block import Block, Int, key

_SOURCE = "inference/config.py"
_QUANTIZER = "inference/quantization/utils.py"


class GroupQuantization(Block):
    """How a weight is cut into groups, each with its own scale."""

    reader = "dict"

    num_bits: Literal[4, 8] = key(doc="Bits per weight.", source=f"{_QUANTIZER}:52")
    group_size: Int = key(
        gt=0, doc="Weights per group; must divide the weight's length along `group_dim`.", source=f"{_QUANTIZER}:57"
    )
    group_dim: Int = key(ge=0, le=1, doc="Axis of the weight along which groups lie.", source=f"{_QUANTIZER}:57")
    symmetric: Literal[False] = key(doc="Whether zero maps to zero; only `false` exists.", source=f"{_QUANTIZER}:54")


class WeightQuantization(Block):
    """Store weights as integers. For inference: a model quantized this way cannot be trained."""

    enabled: bool = key(True, dead=True, doc="Unread; the other keys act by themselves.", source=f"{_SOURCE}:84")
    num_bits: Int = key(8, dead=True, doc="Unread; see the two blocks below.", source=f"{_SOURCE}:85")
    q_type: Literal["symmetric", "asymmetric"] = key(
        "symmetric", dead=True, doc="Unread; see the two blocks below.", source=f"{_SOURCE}:86"
    )
    q_groups: Int = key(1, dead=True, doc="Unread; see the two blocks below.", source=f"{_SOURCE}:87")
    quantized_initialization: GroupQuantization | None = key(
        None,
        doc="Quantize linear and embedding weights while `zero.Init` builds the model (ZeRO stage 3).",
        source=f"{_SOURCE}:92",
    )
    post_init_quant: dict[str, Any] = key(
        {},
        doc="Quantize a finished fp16 model by DeepSpeed's helper function: part of a module's name, and how.",
        source=f"{_SOURCE}:93",
    )
