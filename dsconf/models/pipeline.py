"""`pipeline`: pipeline parallelism."""

from typing import Any

from dsconf.models.block import Block, Int, key

_PARSED = "runtime/config.py"
_READ = "runtime/pipe/engine.py"


class Pipeline(Block):
    """Settings for a model that is a `PipelineModule`; any other model ignores them."""

    actor = "a PipelineModule"
    reader = "dict"

    stages: Any = key(
        "auto", dead=True, doc="Unread; the `PipelineModule` is built with its stages.", source=f"{_PARSED}:275"
    )
    partition: Any = key(
        "best", dead=True, doc="Unread; pass `partition_method` to the `PipelineModule`.", source=f"{_PARSED}:276"
    )
    seed_layers: Any = key(
        False, dead=True, doc="Unread; pass `seed_layers` to the `PipelineModule`.", source=f"{_PARSED}:277"
    )
    activation_checkpoint_interval: Int = key(
        0,
        doc="Layers between two activation checkpoints; above 0, it replaces what the `PipelineModule` was built with.",
        source=f"{_READ}:217",
    )
    pipe_partitioned: bool = key(
        True,
        doc="Send activations in parts, one per model-parallel rank, instead of whole.",
        source=f"{_READ}:135",
    )
    grad_partitioned: bool = key(
        True,
        doc="Send gradients of activations in parts, one per model-parallel rank, instead of whole.",
        source=f"{_READ}:136",
    )
    use_reentrant: bool | None = key(
        None, doc="Checkpoint activations in PyTorch's reentrant way; null: yes.", source=f"{_READ}:210"
    )
