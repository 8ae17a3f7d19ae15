"""What a run learns from and is judged by: a text, or datasets by their dotted names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils import data as torch_data

from runner import dotted
from runner.data import Batch, DatasetOrder, DatasetPool, Order, Pool, TrainingOrder, Windows, as_tokens
from runner.errors import CannotStart, UsageError
from runner.evaluate import bigram_loss
from runner.settings import Call, DatasetSettings
from runner.text import Text


@dataclass(frozen=True, slots=True)
class Source:
    """`order` and `dataset`: the same to train on, for a loader of ours and for DeepSpeed's. `words`: what it is.

    `tokens`: in a sample; None where a sample is not a text. `yardstick`: a loss that is easily reached.
    """

    order: Order
    held_out: Pool
    dataset: Any
    words: str
    collate: Callable[[list[Any]], Batch] | None = None
    tokens: int | None = None
    yardstick: float | None = None


def of_text(text: Text, length: int, seed: int) -> Source:
    """Sequences of `length` bytes."""
    tokens, held_out = as_tokens(text.train), as_tokens(text.held_out)
    return Source(
        order=TrainingOrder(tokens, length, seed),
        held_out=Windows(held_out, length),
        dataset=Windows(tokens, length),
        words=f"text: {text.source}; {len(text.train):,} bytes to train on, {len(text.held_out):,} held out",
        tokens=length,
        yardstick=bigram_loss(tokens, held_out),
    )


def of_datasets(settings: DatasetSettings, seed: int) -> Source:
    """Raises UsageError and CannotStart if there are no such datasets."""
    collate = dotted.find(settings.collate, "data.collate") if settings.collate else None
    train, held_out = _dataset(settings.train, "data.train"), _dataset(settings.held_out, "data.held_out")
    return Source(
        order=DatasetOrder(train, seed, collate or _default_collate),
        held_out=DatasetPool(held_out, collate or _default_collate),
        dataset=train,
        words=f"data: {settings.train.target}; {len(train):,} samples to train on, {len(held_out):,} held out",
        collate=collate,
    )


def _default_collate(items: list[Any]) -> Batch:
    return torch_data.default_collate(items)  # pyright: ignore[reportUnknownMemberType]


def _dataset(call: Call, setting: str) -> Any:
    try:
        made = dotted.bind(call.target, call.arguments, setting)()
    except OSError as error:
        raise CannotStart(f"{setting}: {call.target}: {error.filename or ''} {error.strerror or error}") from None
    if not (hasattr(made, "__len__") and hasattr(made, "__getitem__")):
        raise UsageError(
            f"error: {setting}: {call.target} makes a {type(made).__name__}, and a map-style dataset is needed, with "
            f"__len__ and __getitem__: only so can a run go on from the middle of an epoch"
        )
    if not len(made):
        raise CannotStart(f"{setting}: {call.target} has no samples")
    return made
