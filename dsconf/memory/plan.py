"""Presets compared for a model and a machine: what each needs, what fits, and which to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from dsconf.memory.account import Account, Moment, account, built_for
from dsconf.memory.activations import Batch
from dsconf.memory.machine import Machine, Shortage, World
from dsconf.memory.model import Model

if TYPE_CHECKING:
    from dsconf.models.config import DeepSpeedConfig

#: What the table shows of an accelerator, and the components that each part is made of.
PARTS: dict[str, tuple[str, ...]] = {
    "params": ("parameters", "persistent parameters", "buffers", "padding"),
    "optim": ("master parameters", "optimizer states"),
    "grads": ("gradients",),
    "other": ("gathered parameters", "communication buckets", "offload buffers", "temporaries"),
    "activ": ("activations", "logits"),
}

#: Larger micro batches are not looked for.
_MOST_SAMPLES = 4096


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration. `account`: with the batch that was asked for. `shortages`: where the machine has too little.
    `largest_micro_batch`: what fits at most, 0 for nothing, None when activations are not known."""

    name: str
    account: Account
    shortages: tuple[Shortage, ...]
    spare_bytes: int | None
    largest_micro_batch: int | None
    traffic_bytes: tuple[int, int, int]
    #: What stands in the way beside memory.
    blocker: str = ""

    @property
    def needs_zero_init(self) -> bool:
        """Whether it would not fit, or by more, were the model built whole."""
        return self.account.zero_init

    @property
    def fits(self) -> bool:
        return not self.shortages and not self.blocker

    def parts_bytes(self) -> dict[str, int]:
        """The accelerator's bytes at its peak, by the parts of the table."""
        found = self.account.components(self.moment, "accelerator")
        return {part: sum(found.get(name, 0) for name in names) for part, names in PARTS.items()}

    @property
    def moment(self) -> Moment:
        """When the accelerator holds most."""
        return self.account.peak("accelerator")[0]


@dataclass(frozen=True, slots=True)
class Plan:
    """All rows, and the one to take, if any fits, with the reason."""

    model: Model
    world: World
    machine: Machine
    batch: Batch | None
    rows: tuple[Row, ...]
    recommended: Row | None
    reason: str
    notes: tuple[str, ...]


def read_preset(name: str) -> DeepSpeedConfig:
    """A preset, bound without Pydantic, since presets are known to be valid."""
    from dsconf import presets

    return bound(presets.read(name))


def bound(values: Mapping[str, Any]) -> DeepSpeedConfig:
    """Values of which it is known that they make a valid configuration."""
    from dsconf.bind import bind
    from dsconf.source import Document, Object, from_python

    return bind(Document("", "", cast(Object, from_python(dict(values))), (), ())).config


def whole_presets() -> list[str]:
    """The presets that are whole configurations; the others are parts to add to one."""
    from dsconf import presets

    return [name for name in presets.names() if "\nzero_optimization:" in presets.text(name)]


def plan(
    configs: Mapping[str, DeepSpeedConfig], model: Model, world: World, machine: Machine, batch: Batch | None = None
) -> Plan:
    """Compare configurations and choose.

    Chosen is the one that moves least to and from drives, then host memory, then other ranks, in one optimizer step;
    among equals the one that leaves most memory, and where that makes no difference the lowest stage.
    """
    rows = tuple(_row(name, config, model, world, machine, batch) for name, config in configs.items())
    fitting = [row for row in rows if row.fits]
    limit = machine.usable_accelerator_bytes or 0

    def cost(row: Row) -> tuple[Any, ...]:
        spare = (row.spare_bytes or 0) * 50 // limit if limit else 0
        return (*row.traffic_bytes, -spare, row.account.settings.stage)

    best = min(fitting, key=cost, default=None)
    return Plan(model, world, machine, batch, rows, best, _reason(best, fitting), tuple(_notes(rows, model, batch)))


def _row(name: str, config: DeepSpeedConfig, model: Model, world: World, machine: Machine, batch: Batch | None) -> Row:
    found = built_for(machine, config, model, world, batch)
    limit, held = machine.usable_accelerator_bytes, found.accelerator_bytes
    if machine.shared:
        limit, held = machine.usable_host_bytes(world.ranks_per_node), found.shared_bytes
    return Row(
        name=name,
        account=found,
        shortages=found.shortages(machine),
        spare_bytes=None if limit is None else limit - held,
        largest_micro_batch=_largest(config, model, world, machine, batch, found.zero_init),
        traffic_bytes=_traffic(found),
        blocker="needs --nvme" if found.nvme_bytes and machine.nvme_bytes is None else "",
    )


def _largest(
    config: DeepSpeedConfig, model: Model, world: World, machine: Machine, batch: Batch | None, zero_init: bool
) -> int | None:
    known = machine.host_bytes if machine.shared else machine.accelerator_bytes
    if batch is None or model.transformer is None or known is None:
        return None

    def fits(samples: int) -> bool:
        return not account(config, model, world, replace(batch, micro_batch=samples), zero_init=zero_init).shortages(
            machine
        )

    low, high = 0, _MOST_SAMPLES
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _traffic(found: Account) -> tuple[int, int, int]:
    """Bytes that a rank moves in one optimizer step: to and from drives, host memory, other ranks.

    An all-gather and a reduce-scatter move one copy each, an all-reduce two (Rajbhandari et al., arXiv 1910.02054, 7);
    stages 2 and 3 reduce in every micro batch, stages 0 and 1 once a step.
    """
    settings, model, ranks = found.settings, found.model, found.world.ranks
    width, passes = settings.model_bytes, settings.accumulation_steps
    trained, count = model.trainable_count, model.count
    share = trained // ranks
    network = host = nvme = 0
    if ranks > 1:
        reduced = settings.communication_bytes * trained * (passes if settings.stage >= 2 else 1)
        gathered = width * (2 * count * passes if settings.stage == 3 else trained)
        network = (reduced + gathered) * (ranks - 1) // ranks
    if settings.optimizer_device != "none":
        host += width * share * (passes + 1)
    if settings.param_device != "none":
        host += 2 * width * passes * (count // ranks)
    if settings.optimizer_device == "nvme" and settings.stage == 3:
        nvme += 2 * (settings.master_bytes + settings.states_bytes) * share
    if settings.param_device == "nvme":
        nvme += width * (2 * passes + 1) * (count // ranks)
    return nvme, host, network


def _reason(best: Row | None, fitting: Iterable[Row]) -> str:
    if best is None:
        return ""
    nvme, host, network = best.traffic_bytes
    if nvme or host:
        return f"all that fits needs {'the drive' if nvme else 'host memory'}, and this moves least through it"
    others = [row for row in fitting if row.traffic_bytes == best.traffic_bytes and row is not best]
    if not network and not others:
        return "the only one that fits and leaves the host's memory alone"
    least = "it moves nothing" if not network else "of those that fit it moves least between ranks"
    return f"{least}, and of its equals it leaves most memory to spare" if others else least


def _notes(rows: Iterable[Row], model: Model, batch: Batch | None) -> Iterable[str]:
    rows = tuple(rows)
    share = model.trainable_count / model.count
    if share < 0.1 and any(row.account.settings.stage in (1, 2) for row in rows):
        yield (
            f"Only {share:.1%} of the parameters train. Stages 1 and 2 shard what belongs to those, so here they gain "
            "next to nothing over stage 0; only stage 3 shards the frozen rest."
        )
    if rows and rows[0].account.world.ranks == 1:
        yield "On one rank there is nothing to shard over: stages help by offload only."
    if batch is None:
        yield "Activations are left out; add --seq-len and --micro-batch to count them."
    elif model.transformer is None:
        yield "Activations are left out, since the model's dimensions are not known."
    elif model.guessed:
        shape = model.transformer
        yield (
            f"Taken for a decoder of {shape.layers} blocks of width {shape.hidden} with {shape.vocabulary} tokens; "
            "--hidden-size, --layers and --vocab-size, or --model, say better."
        )
    ranks = rows[0].account.world.ranks if rows else 1
    if ranks > len(model.parameters) and ranks > model.trainable_count:
        yield f"There are more ranks ({ranks}) than trainable parameters ({model.trainable_count})."
    for note in dict.fromkeys(note for row in rows for note in row.account.settings.notes):
        yield note[0].upper() + note[1:] + "."
