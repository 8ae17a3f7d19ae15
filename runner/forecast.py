"""What a run will need of memory: said before the model is built, with how to build it, and refused if it cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from dsconf import DeepSpeedConfig
from dsconf.memory import Account, Batch, Machine, Model, Transformer, World, account, built_for, show_bytes
from dsconf.memory.account import BUILDING, HOST, MEMORY
from dsconf.memory.plan import plan, read_preset, whole_presets
from runner.ds_config import stage
from runner.environment import Place
from runner.errors import CannotStart, UsageError
from runner.model.build import build, freeze
from runner.model.gpt import VOCABULARY
from runner.settings import CalledModel, DataSettings, ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class Forecast:
    """The account of the run, and the machine of the run that has least free. `why`: the model is built as it is."""

    account: Account
    machine: Machine
    batch: Batch | None
    why: str

    @property
    def zero_init(self) -> bool:
        """Whether to build the model under `deepspeed.zero.Init`."""
        return self.account.zero_init

    @property
    def summary(self) -> str:
        """What will be needed and what there is, in one line."""
        found, machine = self.account, self.machine
        if machine.shared:
            text = f"{show_bytes(found.shared_bytes)} needed on this host, {show_bytes(machine.host_bytes or 0)} free"
        else:
            text = (
                f"{show_bytes(found.accelerator_bytes)} needed on each accelerator, "
                f"{show_bytes(machine.accelerator_bytes or 0)} free; {show_bytes(found.host_bytes)} on this host, "
                f"{show_bytes(machine.host_bytes or 0)} free"
            )
        if found.nvme_bytes:
            text += f"; {show_bytes(found.nvme_bytes)} on the drive, {show_bytes(machine.nvme_bytes or 0)} free"
        return text

    def refuse_shortage(self) -> None:
        """Raise CannotStart if the run needs more than is free, to the last byte.

        What the account leaves out, such as tensor parallelism, is left to try.
        """
        found = self.account
        missing = found.shortages(replace(self.machine, set_aside=False))
        if missing and not found.settings.notes:
            worst = max(missing, key=lambda item: item.over_bytes)
            where = {"accelerator": "each accelerator", "host": "this host", "nvme": "the drive"}[worst.where]
            raise CannotStart(
                f"the run does not fit: {show_bytes(worst.over_bytes)} too little memory on {where} "
                f"({self.summary})\n  {self._remedy()}"
            )

    def _remedy(self) -> str:
        presets = {name: read_preset(name) for name in whole_presets()}
        found = plan(presets, self.account.model, self.account.world, self.machine, self.batch)
        if found.recommended is not None:
            return f"this preset would fit: +preset={found.recommended.name}"
        return (
            "no preset would fit; train a smaller model (model.layers, model.width), or smaller micro batches "
            "(ds_config.train_micro_batch_size_per_gpu, data.sequence_length), or on more machines"
        )


def forecast(settings: Settings, config: DeepSpeedConfig, model: Model, place: Place, machine: Machine) -> Forecast:
    """How to build the model of a run, and what the run then needs. All ranks that are told alike say alike."""
    world = World(max(1, place.world_size // place.ranks_per_host), place.ranks_per_host)
    samples = config.train_micro_batch_size_per_gpu
    data = settings.data
    batch = Batch(data.sequence_length, samples) if samples and isinstance(data, DataSettings) else None
    return choose(settings.model.zero_init, config, model, world, machine, batch)


def choose(
    wish: Literal["auto", "always", "never"],
    config: DeepSpeedConfig,
    model: Model,
    world: World,
    machine: Machine,
    batch: Batch | None = None,
) -> Forecast:
    """`wish`: whether to build under zero.Init; `auto` does so where the model, built whole, would not fit."""
    if stage(config) < 3:
        why = f"ZeRO stage {stage(config)} trains whole parameters"
        return Forecast(account(config, model, world, batch), machine, batch, why)
    if wish != "auto":
        found = account(config, model, world, batch, zero_init=wish == "always")
        return Forecast(found, machine, batch, f"model.zero_init={wish}")
    found = built_for(machine, config, model, world, batch)
    whole, cut = (account(config, model, world, batch, zero_init=value) for value in (False, True))
    (here, there), (cut_here, cut_there) = _building(whole), _building(cut)
    free, free_there = show_bytes(machine.host_bytes or 0), show_bytes(machine.accelerator_bytes or 0)
    if machine.shared:
        here, cut_here = _building_shared(whole), _building_shared(cut)
        why = f"built whole it takes {here} of this host, under zero.Init {cut_here}, with {free} free"
    else:
        why = (
            f"built whole it takes {here} of this host and {there} of each accelerator, "
            f"under zero.Init {cut_here} and {cut_there}, with {free} and {free_there} free"
        )
    return Forecast(found, machine, batch, why)


def describe(settings: ModelSettings | CalledModel) -> Model | None:
    """The model of a run, counted on the meta device, where it takes no memory; None if it cannot be built there."""
    try:
        with torch.device("meta"):
            built = build(settings)
    except (UsageError, CannotStart):
        raise
    except Exception:
        # Somebody else's constructor: it may need the numbers that there are none of on that device.
        return None
    freeze(built, settings.freeze)
    counted = Model.from_module(built)
    if isinstance(settings, CalledModel):
        return counted
    width, heads = settings.width, settings.heads
    shape = Transformer(width, settings.layers, VOCABULARY, settings.expansion * width, heads, heads, gated=False)
    return replace(counted, transformer=shape)


def _building(found: Account) -> tuple[str, str]:
    """What building and `deepspeed.initialize` take of a host and of an accelerator."""
    device = max(found.bytes_at(moment, "accelerator") for moment in BUILDING)
    return show_bytes(found.node_bytes(HOST, BUILDING)), show_bytes(device)


def _building_shared(found: Account) -> str:
    """The same where these are one memory."""
    return show_bytes(found.node_bytes(MEMORY, BUILDING, rounded=False))
