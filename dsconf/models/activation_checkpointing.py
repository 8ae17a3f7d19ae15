"""`activation_checkpointing`: what `deepspeed.checkpointing` keeps of the forward pass."""

from dsconf.models.block import Block, Int, key

_SOURCE = "runtime/activation_checkpointing/config.py"


class ActivationCheckpointing(Block):
    """Recompute activations in the backward pass instead of storing them.

    `deepspeed.initialize` does not read the block: the training script hands the configuration to
    `deepspeed.checkpointing.configure`, and the model calls `deepspeed.checkpointing.checkpoint`.
    """

    actor = "deepspeed.checkpointing.configure"
    reader = "dict"

    partition_activations: bool = key(
        False,
        doc="Split every saved activation over the model-parallel ranks.",
        source=f"{_SOURCE}:77",
    )
    contiguous_memory_optimization: bool = key(
        False,
        doc="Copy saved activations into one buffer allocated beforehand, against fragmentation.",
        source=f"{_SOURCE}:80",
    )
    cpu_checkpointing: bool = key(
        False,
        doc="Keep saved activations in host memory until the backward pass needs them.",
        source=f"{_SOURCE}:84",
    )
    number_checkpoints: Int | None = key(
        None,
        doc="How many checkpoints one forward pass makes; sizes the contiguous buffers.",
        source=f"{_SOURCE}:87",
    )
    profile: bool = key(
        False,
        doc="Log the forward and backward time of every checkpointed region.",
        source=f"{_SOURCE}:90",
    )
    synchronize_checkpoint_boundary: bool = key(
        False,
        doc="Wait for the device at the beginning and end of every checkpointed region.",
        source=f"{_SOURCE}:92",
    )
