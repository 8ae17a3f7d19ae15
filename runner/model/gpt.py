"""A small GPT over bytes: rotary positions, normalised queries and keys, squared ReLU, no biases."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from runner.settings import ModelSettings

#: One token per byte value.
VOCABULARY = 256


class Linear(nn.Linear):
    """A linear layer without bias that multiplies in the type of its input, whatever type its weight is kept in."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)  # pyright: ignore[reportUnknownMemberType]

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight.to(input.dtype))


class Head(Linear):
    """The layer that turns features into logits; it starts at zero, so that training starts at an even guess."""


class Output(Linear):
    """The last layer of a residual branch; it starts at zero, so that every block starts as the identity."""


def _norm(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.size(-1),))


def _arithmetic(x: Tensor) -> torch.dtype:
    """The type to calculate in: x's own, but float32 on a CPU, most of which emulate 16-bit products slowly."""
    return torch.float32 if x.device.type == "cpu" else x.dtype


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.qkv = Linear(settings.width, 3 * settings.width)
        self.output = Output(settings.width, settings.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        query, key = _rotate(_norm(query), cos, sin), _rotate(_norm(key), cos, sin)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    """Two layers with a squared ReLU between them."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.inner = Linear(settings.width, settings.expansion * settings.width)
        self.output = Output(settings.expansion * settings.width, settings.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(functional.relu(self.inner(x)).square())


class Block(nn.Module):
    """Attention, then feed-forward, each added to what comes in."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = Attention(settings)
        self.feed_forward = FeedForward(settings)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(_norm(x), cos, sin)
        return x + self.feed_forward(_norm(x))


class GPT(nn.Module):
    """Predicts the next byte.

    Every weight gets its first value from `self.apply` in this constructor: `deepspeed.zero.Init` gathers each
    module's parameters around `apply`, whereas a plain loop over the modules would write into empty shards.
    There are no buffers, which `zero.Init` would cast to the training type.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.head_width = settings.width // settings.heads
        self.lookback = settings.lookback
        self.embedding = nn.Embedding(settings.lookback * VOCABULARY, settings.width)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.head = Head(settings.width, VOCABULARY)
        self.apply(_initialise)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """The logits, float32 [batch, length, 256]; with `targets` the mean loss in nats per byte, float32 [].

        `tokens`, `targets`: int64 [batch, length], values 0 to 255.
        """
        x = self._embed(tokens)
        cos, sin = self._rotations(tokens.size(1), x)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(_norm(x)).float()
        if targets is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def _embed(self, tokens: Tensor) -> Tensor:
        """The sum of one vector for each of the last `lookback` bytes, by how far back it is; before the start: 0."""
        length = tokens.size(1)
        earlier = [functional.pad(tokens, (back, 0))[:, :length] + back * VOCABULARY for back in range(self.lookback)]
        vectors: Tensor = self.embedding(torch.stack(earlier, dim=2))
        return _norm(vectors.to(_arithmetic(vectors)).sum(dim=2))

    def _rotations(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [length, head width / 2] each, worked out in float32 whatever the training type."""
        half = self.head_width // 2
        frequencies = 10_000.0 ** -(torch.arange(half, device=like.device, dtype=torch.float32) / half)
        angles = torch.arange(length, device=like.device, dtype=torch.float32)[:, None] * frequencies
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, (Head, Output)):
        nn.init.zeros_(module.weight)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=1 / math.sqrt(module.in_features))
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight)
