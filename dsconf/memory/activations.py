"""What the forward pass of a transformer leaves for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconf.memory.model import Transformer


@dataclass(frozen=True, slots=True)
class Batch:
    """What one rank puts through the model at a time: `micro_batch` samples of `sequence_length` tokens.

    `checkpointing`: each block is recomputed in the backward pass. `on_host`: what is kept of it lies in host memory.
    """

    sequence_length: int
    micro_batch: int
    checkpointing: bool = False
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes at the peak, which is where the forward pass ends."""

    blocks_bytes: int
    logits_bytes: int
    host_bytes: int = 0


def activations(transformer: Transformer, batch: Batch, low_precision: bool) -> Activations:
    """What autograd keeps, for attention that never holds its scores (flash or SDPA).

    Per token and hidden unit, in elements: 8 around norms and attention, and in the MLP 2 for each of the
    `intermediate` units, or 4 where a gate doubles them (Korthikanti et al., arXiv 2205.05198, table 2, without the
    terms of the attention scores). Norms that compute in fp32, as those of Llama do, keep 8 bytes more, others 2. A
    checkpointed block keeps its input, and one block at a time is whole.

    The logits are held in the model's type, in fp32, as their log-softmax and as its gradient.
    """
    width = 2 if low_precision else 4
    tokens = batch.sequence_length * batch.micro_batch
    unit = tokens * transformer.hidden
    mlp = (4 if transformer.gated else 2) * transformer.intermediate / transformer.hidden
    norms = 8 if transformer.gated else 2
    block = int(unit * (width * (8 + mlp) + norms))
    logits = tokens * transformer.vocabulary * (width + 12 if width == 2 else 12)
    if not batch.checkpointing:
        return Activations(transformer.layers * block, logits)
    kept = transformer.layers * unit * width
    if batch.on_host:
        return Activations(block + unit * width, logits, kept)
    return Activations(kept + block, logits)
