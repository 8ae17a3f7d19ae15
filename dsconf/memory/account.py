"""The account: every tensor that a rank will hold, with its place, its moments and the source that says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from dsconf.memory.activations import Batch, activations
from dsconf.memory.machine import Machine, Shortage, World
from dsconf.memory.model import Model
from dsconf.memory.settings import Settings

if TYPE_CHECKING:
    from dsconf.models.config import DeepSpeedConfig

#: Where bytes are. `pageable` and `pinned` are host memory.
Place = Literal["accelerator", "pageable", "pinned", "nvme"]
HOST: tuple[Place, ...] = ("pageable", "pinned")
#: All that is memory; on a machine whose accelerator is its CPU these are one.
MEMORY: tuple[Place, ...] = ("accelerator", *HOST)

#: When: while the model is built; within `deepspeed.initialize` while tensors are laid out, while master parameters are
#: made and while hooks are put on the gradients, and at its end; where forward turns to backward and most gradients and
#: activations are alive; while the norm of the gradients is computed; in the optimizer's step; between two steps; while
#: the model is saved.
Moment = Literal["build", "layout", "masters", "hooks", "ready", "backward", "norm", "step", "between", "save"]
MOMENTS: tuple[Moment, ...] = (
    "build",
    "layout",
    "masters",
    "hooks",
    "ready",
    "backward",
    "norm",
    "step",
    "between",
    "save",
)
#: Until the end of `deepspeed.initialize`.
BUILDING: tuple[Moment, ...] = ("build", "layout", "masters", "hooks", "ready")
#: Once the engine's own tensors are there.
ALWAYS: tuple[Moment, ...] = ("hooks", "ready", "backward", "norm", "step", "between", "save")
#: From the first step on: optimizer states come to life there, not in `deepspeed.initialize`.
STEPPED: tuple[Moment, ...] = ("backward", "norm", "step", "between", "save")

Component = Literal[
    "parameters",
    "persistent parameters",
    "gathered parameters",
    "master parameters",
    "optimizer states",
    "gradients",
    "padding",
    "communication buckets",
    "offload buffers",
    "temporaries",
    "buffers",
    "activations",
    "logits",
]


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes of one component in one place, on one rank, at some moments. `source`: the line of DeepSpeed that decides.
    `first_rank_only`: of all ranks only the first holds it. `only`: it is there only where ranks compute on
    accelerators, or only where they do so on the CPU."""

    component: Component
    place: Place
    bytes_: int
    moments: tuple[Moment, ...]
    source: str
    first_rank_only: bool = False
    only: Literal["accelerator", "cpu"] | None = None


@dataclass(frozen=True)
class Account:
    """What one rank needs. `rank` is the one that needs most, unless one was asked for."""

    model: Model
    world: World
    settings: Settings
    zero_init: bool
    items: tuple[Item, ...]

    def bytes_at(self, moment: Moment, *places: Place) -> int:
        """Bytes on this rank at a moment, in the given places, or in the one memory of ranks on a CPU."""
        return sum(item.bytes_ for item in self._held(moment, places or MEMORY))

    def _held(self, moment: Moment, places: tuple[Place, ...]) -> list[Item]:
        elsewhere = "accelerator" if places == MEMORY else "cpu"
        return [
            item for item in self.items if item.place in places and moment in item.moments and item.only != elsewhere
        ]

    def persistent_bytes(self, *places: Place) -> int:
        """Bytes on this rank between two steps."""
        return self.bytes_at("between", *places)

    def peak(self, *places: Place) -> tuple[Moment, int]:
        """The moment that needs most in the given places, and its bytes."""
        return max(((moment, self.bytes_at(moment, *places)) for moment in MOMENTS), key=lambda item: item[1])

    def components(self, moment: Moment, *places: Place) -> dict[str, int]:
        """Bytes at a moment by component."""
        found: dict[str, int] = {}
        for item in self._held(moment, places or MEMORY):
            if item.bytes_:
                found[item.component] = found.get(item.component, 0) + item.bytes_
        return found

    @cached_property
    def accelerator_bytes(self) -> int:
        """The most that this rank's accelerator holds at any moment."""
        return self.peak("accelerator")[1]

    @cached_property
    def host_bytes(self) -> int:
        """The most that the ranks of one node hold in host memory at any moment, rounding of pinned memory included."""
        return self.node_bytes(HOST)

    @cached_property
    def pinned_bytes(self) -> int:
        """The most that the ranks of one node hold in pinned memory, rounding included."""
        return self.node_bytes(("pinned",))

    @cached_property
    def shared_bytes(self) -> int:
        """The most that the ranks of one node hold where they compute on the CPU: one memory, and nothing is pinned."""
        return self.node_bytes(MEMORY, rounded=False)

    def node_bytes(
        self, places: tuple[Place, ...], moments: tuple[Moment, ...] = MOMENTS, *, rounded: bool = True
    ) -> int:
        """The most that the ranks of one node hold in some places at one of some moments. `rounded`: with what is lost
        by rounding pinned blocks up."""
        sums: list[int] = []
        for moment in moments:
            held = self._held(moment, places)
            once = sum(item.bytes_ for item in held if item.first_rank_only)
            each = sum(item.bytes_ for item in held if not item.first_rank_only)
            each += self.pinned_rounding_bytes(moment) if rounded else 0
            sums.append(once + each * self.world.ranks_per_node)
        return max(sums)

    @cached_property
    def nvme_bytes(self) -> int:
        """What the ranks of one node write to their drive."""
        return self.world.ranks_per_node * self.peak("nvme")[1]

    def pinned_rounding_bytes(self, moment: Moment) -> int:
        """What is lost because torch's allocator rounds every pinned block up to a power of two."""
        blocks = (
            item.bytes_ for item in self.items if item.place == "pinned" and moment in item.moments and item.bytes_
        )
        return sum((1 << (size - 1).bit_length()) - size for size in blocks)

    def shortages(self, machine: Machine) -> tuple[Shortage, ...]:
        """Where a machine has too little, as far as its sizes are known."""
        host = machine.usable_host_bytes(self.world.ranks_per_node)
        limits = (
            ("accelerator", self.accelerator_bytes, None if machine.shared else machine.usable_accelerator_bytes),
            ("host", self.shared_bytes if machine.shared else self.host_bytes, host),
            ("nvme", self.nvme_bytes, machine.nvme_bytes),
        )
        return tuple(
            Shortage(where, need - limit) for where, need, limit in limits if limit is not None and need > limit
        )


def account(
    config: DeepSpeedConfig,
    model: Model,
    world: World | None = None,
    batch: Batch | None = None,
    *,
    zero_init: bool = False,
    rank: int | None = None,
) -> Account:
    """What each rank needs for a model under a configuration.

    `batch`: counts activations too, for a model whose dimensions are known. `zero_init`: the model is built under
    `deepspeed.zero.Init`. `rank`: whose account; without it that of the rank that needs most.
    """
    world = world or World()
    settings = Settings.of(config)
    built = zero_init and settings.stage == 3
    items = tuple(
        item for item in (*_items(settings, model, world, built, rank), *_batch(settings, model, batch)) if item.bytes_
    )
    return Account(model, world, settings, built, items)


def built_for(
    machine: Machine, config: DeepSpeedConfig, model: Model, world: World, batch: Batch | None = None
) -> Account:
    """The account of the way to build the model that a machine calls for: whole, unless that does not fit and
    `deepspeed.zero.Init` leaves less missing."""
    whole = account(config, model, world, batch)
    missing = whole.shortages(machine)
    if not missing or whole.settings.stage < 3:
        return whole
    cut = account(config, model, world, batch, zero_init=True)
    still = cut.shortages(machine)
    fewer = len(still) < len(missing) or sum(x.over_bytes for x in still) < sum(x.over_bytes for x in missing)
    return cut if fewer else whole


def _items(settings: Settings, model: Model, world: World, zero_init: bool, rank: int | None) -> Iterator[Item]:
    from dsconf.memory import stage0, stage3, stage12

    device: Place = "accelerator"
    yield Item("buffers", device, model.buffers_bytes, MOMENTS, "torch/nn/modules/module.py")
    if not zero_init:
        # Each rank builds all of it, in fp32, before the engine casts and moves it.
        yield Item("parameters", "pageable", 4 * model.count, ("build",), "torch/nn/modules/module.py")
        if settings.low_precision:
            # The cast goes tensor by tensor: each is there twice for a moment.
            cast = settings.model_bytes * model.largest_tensor
            yield Item("temporaries", "pageable", cast, ("build",), "runtime/engine.py:1859")
    if settings.stage == 0:
        yield from stage0.items(settings, model)
    elif settings.stage == 3:
        yield from stage3.items(settings, model, world, zero_init)
    else:
        yield from stage12.items(settings, model, world, rank)


def _batch(settings: Settings, model: Model, batch: Batch | None) -> Iterator[Item]:
    if batch is None or model.transformer is None:
        return
    kept = activations(model.transformer, batch, settings.low_precision or settings.autocast)
    yield Item("activations", "accelerator", kept.blocks_bytes, ("backward",), "runtime/activation_checkpointing")
    yield Item("logits", "accelerator", kept.logits_bytes, ("backward",), "torch/nn/functional.py")
    yield Item("activations", "pinned", kept.host_bytes, ("backward",), "runtime/activation_checkpointing")
