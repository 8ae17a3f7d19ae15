"""`torch_autocast`: PyTorch's own mixed precision."""

from dsconf.models.block import Block, key
from dsconf.models.data_types import Dtype


class TorchAutocast(Block):
    """Run the forward pass under `torch.autocast`, with parameters in fp32."""

    reader = "dict"

    enabled: bool = key(False, doc="Switch autocast on.", source="runtime/config.py:181")
    dtype: Dtype = key(
        None,
        doc="Lower-precision type; absent: PyTorch's default for the device.",
        source="runtime/config.py:190",
    )
    lower_precision_safe_modules: list[str] = key(
        None,
        doc="Dotted class names of the modules whose gradients are communicated in the lower precision; absent: "
        "`torch.nn.Linear` and the convolutions.",
        source="runtime/config.py:200",
    )
