"""A model as memory sees it: its tensors in order, which of them train, and the shape that activations follow from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dsconf.memory.size import show_count

if TYPE_CHECKING:
    from torch import nn


class ModelError(ValueError):
    """A model that cannot be described; the text is for people."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor: its number of elements, whether it trains, and the number of the module that owns it."""

    numel: int
    trainable: bool = True
    module: int = 0


@dataclass(frozen=True, slots=True)
class Transformer:
    """The dimensions of a decoder. `gated`: the MLP has a gate beside its two matrices. `tied`: the output layer is the
    embedding. `experts`: MLPs in each block, of which `active_experts` see a token."""

    hidden: int
    layers: int
    vocabulary: int
    intermediate: int
    heads: int
    kv_heads: int
    gated: bool = True
    tied: bool = False
    positions: int = 0
    biases: bool = False
    experts: int = 0
    head_size: int = 0

    def parameters(self) -> Iterator[tuple[int, int]]:
        """Each tensor as (elements, module), in the order of the modules."""
        counter = itertools.count()
        h, f = self.hidden, self.intermediate
        size = self.head_size or h // self.heads
        query, keys = self.heads * size, self.kv_heads * size

        def linear(inputs: int, outputs: int) -> Iterator[tuple[int, int]]:
            module = next(counter)
            yield inputs * outputs, module
            if self.biases:
                yield outputs, module

        def norm() -> Iterator[tuple[int, int]]:
            module = next(counter)
            yield h, module
            if self.biases:
                yield h, module

        yield self.vocabulary * h, next(counter)
        if self.positions:
            yield self.positions * h, next(counter)
        for _ in range(self.layers):
            yield from norm()
            for outputs in (query, keys, keys):
                yield from linear(h, outputs)
            yield from linear(query, h)
            yield from norm()
            if self.experts:
                yield h * self.experts, next(counter)
            for _ in range(self.experts or 1):
                for _ in range(2 if self.gated else 1):
                    yield from linear(h, f)
                yield from linear(f, h)
        yield from norm()
        if not self.tied:
            yield self.vocabulary * h, next(counter)


@dataclass(frozen=True)
class Model:
    """What is known of a model. `parameters`: its distinct tensors in order. `transformer`: its dimensions, if it is
    one; `guessed`: they are those that a model of this size usually has."""

    name: str
    parameters: tuple[Parameter, ...]
    buffers_bytes: int = 0
    transformer: Transformer | None = None
    guessed: bool = False

    @cached_property
    def count(self) -> int:
        """Elements in all."""
        return sum(item.numel for item in self.parameters)

    @cached_property
    def trainable_count(self) -> int:
        """Elements that train."""
        return sum(item.numel for item in self.parameters if item.trainable)

    @property
    def frozen_count(self) -> int:
        """Elements that do not train."""
        return self.count - self.trainable_count

    @cached_property
    def largest_tensor(self) -> int:
        """Elements of the largest tensor."""
        return max((item.numel for item in self.parameters), default=0)

    @cached_property
    def largest_trainable(self) -> int:
        """Elements of the largest tensor that trains."""
        return max((item.numel for item in self.parameters if item.trainable), default=0)

    @cached_property
    def modules(self) -> tuple[tuple[Parameter, ...], ...]:
        """The tensors of each module that has some of its own, in order."""
        return tuple(tuple(group) for _, group in itertools.groupby(self.parameters, lambda item: item.module))

    @cached_property
    def largest_module(self) -> int:
        """Elements of the largest module's own tensors."""
        return max((sum(item.numel for item in module) for module in self.modules), default=0)

    @cached_property
    def largest_trainable_module(self) -> int:
        """The most elements that train in one module."""
        return max((sum(item.numel for item in module if item.trainable) for module in self.modules), default=0)

    @cached_property
    def backward_count(self) -> int:
        """Elements of the modules that the backward pass comes to: it ends at the first that trains."""
        training = [any(item.trainable for item in module) for module in self.modules]
        first = training.index(True) if any(training) else len(training)
        return sum(item.numel for module in self.modules[first:] for item in module)

    @staticmethod
    def from_transformer(transformer: Transformer, name: str = "") -> Model:
        """A decoder of the given dimensions.

        Raises:
            ModelError: dimensions that do not fit together.
        """
        for what in ("hidden", "layers", "vocabulary", "intermediate", "heads", "kv_heads"):
            if getattr(transformer, what) < 1:
                raise ModelError(f"{what} is {getattr(transformer, what)}; it must be at least 1")
        if transformer.layers > _MOST_MODULES or transformer.hidden > _WIDEST:
            raise ModelError(f"{transformer.layers} layers of width {transformer.hidden}: no model has that shape")
        tensors = tuple(Parameter(numel, True, module) for numel, module in transformer.parameters())
        model = Model(name, tensors, transformer=transformer)
        return model if name else replace(model, name=f"{show_count(model.count)} parameters")

    @staticmethod
    def from_count(count: int, largest_layer: int | None = None) -> Model:
        """A model of which only the number of parameters is known, and perhaps the elements of its largest module.

        Without `largest_layer` it is cut like a Llama of that size: as many blocks as the width has heads of 128.

        Raises:
            ModelError: no model has these numbers.
        """
        if count < 1:
            raise ModelError(f"a model has at least one parameter, not {count}")
        name = f"{show_count(count)} parameters"
        if largest_layer is not None:
            if not 1 <= largest_layer <= count:
                raise ModelError(f"the largest layer has between 1 and {count} parameters, not {largest_layer}")
            whole, rest = divmod(count, largest_layer)
            if whole > _MOST_MODULES:
                raise ModelError(
                    f"a largest layer of {largest_layer} would make {whole} of them; is that what is meant?"
                )
            sizes: list[int] = [largest_layer] * whole + ([rest] if rest else [])
            return Model(name, tuple(Parameter(size, True, n) for n, size in enumerate(sizes)))
        transformer = _usual_shape(count)
        if transformer is None:
            return Model(name, (Parameter(count),))
        tensors = Model.from_transformer(transformer).parameters
        rest = count - sum(item.numel for item in tensors)
        if rest:
            tensors = (*tensors, Parameter(rest, True, tensors[-1].module + 1))
        return Model(name, tensors, transformer=transformer, guessed=True)

    @staticmethod
    def from_directory(directory: str | Path) -> Model:
        """The model that a Hugging Face `config.json` in a local directory describes.

        Raises:
            ModelError: there is no such file, or its architecture or dimensions are not understood.
        """
        from dsconf.memory.huggingface import read_config

        path = Path(directory)
        path = path / "config.json" if path.is_dir() else path
        if path.name.endswith(".json") and path.is_file():
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ModelError(f"{path}: {error}") from None
            return read_config(values, str(directory))
        if not Path(directory).exists():
            raise ModelError(f"{directory}: no such directory; a model is looked for on this machine only")
        raise ModelError(f"{directory}: no config.json in there")

    @staticmethod
    def from_module(module: nn.Module, name: str = "") -> Model:
        """A torch module, best on the meta device, where it takes no memory. Tied weights count once."""
        parameters: list[Parameter] = []
        seen: set[int] = set()
        buffers = 0
        for number, part in enumerate(module.modules()):
            for _, tensor in part.named_parameters(recurse=False):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    numel = int(getattr(tensor, "ds_numel", tensor.numel()))
                    parameters.append(Parameter(numel, tensor.requires_grad and numel > 0, number))
            for _, tensor in part.named_buffers(recurse=False):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    buffers += tensor.numel() * tensor.element_size()
        model = Model(name or type(module).__name__, tuple(parameters), buffers)
        if not model.count:
            raise ModelError(f"{model.name} has no parameters")
        return model

    def with_trainable(self, fraction: float) -> Model:
        """The same model with a share of every weight trainable and the rest frozen: adapters, as LoRA adds them, two
        small matrices to a weight. `fraction` is above 0 and at most 1."""
        if fraction >= 1:
            return self
        tensors: list[Parameter] = []
        done = given = 0
        for item in self.parameters:
            done += item.numel
            share = min(round(done * fraction) - given, item.numel)
            given += share
            first = share // 2
            cut = [(item.numel - share, False), (first, True), (share - first, True)]
            tensors += [Parameter(numel, trainable, item.module) for numel, trainable in cut if numel]
        return replace(self, parameters=tuple(tensors))


#: More modules than this no model has.
_MOST_MODULES = 100_000
#: Wider than this none is either.
_WIDEST = 10_000_000


def _usual_shape(count: int) -> Transformer | None:
    """The dimensions that a decoder of this size usually has: as many blocks as heads of 128, and an MLP of 8/3 the
    width, here widened to come near the count."""
    vocabulary, step = 32_000, 64
    shape = None
    for hidden in itertools.count(128, 128):
        layers, heads, intermediate = max(2, hidden // 128), hidden // 128, round(hidden * 8 / 3 / step) * step
        block = 4 * hidden * hidden + 3 * hidden * intermediate + 2 * hidden
        missing = count - layers * block - (2 * vocabulary + 1) * hidden
        if missing < 0:
            break
        intermediate += missing // (3 * hidden * layers * step) * step
        shape = Transformer(hidden, layers, vocabulary, intermediate, heads, heads)
    return shape
