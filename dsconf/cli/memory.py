"""Options that say which model and which machine memory is judged by; `plan` and `validate` share them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsconf.memory.model import Model

    #: What options are added to.
    Group = argparse._ArgumentGroup  # pyright: ignore[reportPrivateUsage]


def add_model(group: Group) -> None:
    """The options that say which model."""
    group.add_argument("--params", type=_reader("count"), metavar="N", help="number of parameters: 7e9, 7B")
    group.add_argument("--model", metavar="DIR", help="local directory with a Hugging Face config.json")
    group.add_argument("--largest-layer", type=_reader("count"), metavar="N", help="parameters of the largest layer")
    group.add_argument("--trainable", type=_reader("fraction"), metavar="SHARE", help="share that trains: 0.5%%")


def add_memory(group: Group) -> None:
    """The options that say how much memory there is."""
    group.add_argument("--gpu-memory", type=_reader("bytes"), metavar="SIZE", help="of one accelerator: 80GiB")
    group.add_argument("--host-memory", type=_reader("bytes"), metavar="SIZE", help="of one node's host: 512GiB")


def positive_size(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number between 1 and 1e9")
    return int(text)


def _reader(kind: str) -> Callable[[str], Any]:
    """A type of argparse that reads a size, and says what is wrong with it in its own words."""

    def read(text: str) -> Any:
        from dsconf.memory import size

        readers: dict[str, Callable[[str], Any]] = {
            "count": size.parse_count,
            "bytes": size.parse_bytes,
            "fraction": size.parse_fraction,
        }
        try:
            return readers[kind](text)
        except size.SizeError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def described_model(options: argparse.Namespace) -> Model | None:
    """The model that the options describe; None where they name none.

    Raises:
        ModelError: they contradict each other, or no model is like that.
    """
    from dsconf.memory.model import Model, ModelError, Transformer

    width, layers = getattr(options, "hidden_size", None), getattr(options, "layers", None)
    ways = [
        name
        for name, given in (("--params", options.params), ("--model", options.model), ("--hidden-size", width))
        if given
    ]
    if (width is None) != (layers is None):
        raise ModelError("--hidden-size and --layers go together")
    if len(ways) > 1:
        raise ModelError(f"{' and '.join(ways)} each describe the model; give one of them")
    if options.largest_layer is not None and options.params is None:
        raise ModelError("--largest-layer goes with --params")
    if not ways:
        return None
    if options.model:
        found = Model.from_directory(os.path.expanduser(options.model))
    elif width is not None and layers is not None:
        heads = options.heads or max(1, width // 128)
        intermediate = options.intermediate_size or max(1, width * 8 // 3)
        shape = Transformer(width, layers, options.vocab_size or 32_000, intermediate, heads, heads)
        found = Model.from_transformer(shape)
    else:
        found = Model.from_count(options.params, options.largest_layer)
    return found.with_trainable(options.trainable) if options.trainable else found
