"""`data_types`: the types of parameters, buffers and accumulated gradients."""

from typing import Literal

from dsconf.models.block import Block, key

#: The names that DeepSpeed takes for a dtype, letter by letter.
Dtype = Literal[
    "fp32",
    "float32",
    "float",
    "torch.float32",
    "fp16",
    "float16",
    "half",
    "torch.float16",
    "bf16",
    "bfloat16",
    "torch.bfloat16",
    "int8",
    "torch.int8",
]


class DataTypes(Block):
    """Types beside those that `fp16` and `bf16` imply."""

    reader = "dict"

    grad_accum_dtype: Dtype | None = key(
        None,
        doc="Type in which gradients are accumulated; null: the type of the model.",
        source="runtime/config.py:556",
    )
    param_dtype: Dtype | None = key(
        None,
        doc="Type of the parameters; may only repeat what `fp16` or `bf16` says.",
        source="runtime/config.py:559",
    )
    buffer_dtype: Dtype | None = key(
        None,
        doc="Type to which the model's buffers are converted; null: left as they are.",
        source="runtime/config.py:561",
    )
    keep_in_fp32_modules: list[str] | Literal["auto"] = key(
        "auto",
        auto=True,
        doc="Name patterns of the buffers that stay in fp32 under fp16 and bf16; `auto`: those that the model "
        "(in transformers' way) lists itself.",
        source="runtime/config.py:563",
    )
