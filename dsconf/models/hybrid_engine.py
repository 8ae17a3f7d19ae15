"""`hybrid_engine`: one engine that trains and generates."""

from dsconf.models.block import Block, Int, key

_SOURCE = "runtime/config.py"


class HybridEngine(Block):
    """Switch between training and fast generation on the same weights, for reinforcement learning."""

    actor = "the hybrid engine"

    enabled: bool = key(False, doc="Build the hybrid engine.", source=f"{_SOURCE}:360")
    max_out_tokens: Int = key(
        512, gt=0, doc="Tokens, prompt included, for which generation reserves its cache.", source=f"{_SOURCE}:361"
    )
    inference_tp_size: Int = key(1, ge=1, doc="Tensor-parallel degree while generating.", source=f"{_SOURCE}:362")
    release_inference_cache: bool = key(
        False, doc="Free the generation cache after each call of `generate`.", source=f"{_SOURCE}:363"
    )
    pin_parameters: bool = key(
        True,
        doc="Gather all layers before generating rather than each when its turn comes (ZeRO stage 3).",
        source=f"{_SOURCE}:364",
    )
    tp_gather_partition_size: Int = key(
        8,
        gt=0,
        doc="Layers to gather at a time when `inference_tp_size` is above 1 (ZeRO stage 3).",
        source=f"{_SOURCE}:365",
    )
    enable_cuda_graph: bool = key(False, doc="Replay generation steps as a CUDA graph.", source=f"{_SOURCE}:366")
