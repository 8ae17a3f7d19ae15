"""A whole training run from plain settings; can be called from a script, a test or a notebook."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from dsconf import DeepSpeedConfig
from runner import ds_config, environment, monitors, nvme, run_dir, text
from runner.checkpoint import changes, shelf
from runner.checkpoint.shelf import Found
from runner.settings import DataSettings, Settings

if TYPE_CHECKING:
    from runner.loop import Summary


def train(settings: Settings) -> Summary:
    """Train, evaluate and save a model; under a launcher, every process calls this.

    Raises UsageError if the settings cannot be right, and CannotStart if this machine or its files lack something.
    """
    place = environment.prepare()
    config = approve(settings, place.world_size)
    found = choose_checkpoint(settings, config) if place.leads else None
    words = text.read(settings.data) if isinstance(settings.data, DataSettings) else None
    with nvme.locked(config) if place.local_rank == 0 else contextlib.nullcontext():
        # torch and DeepSpeed take seconds to import; what can be refused without them has been refused by now.
        from runner import loop

        return loop.run(settings, config, words, place, found)


def approve(settings: Settings, world_size: int) -> DeepSpeedConfig:
    """The configuration of the run, once this machine is known to have what it names.

    Raises UsageError and CannotStart, as `train` does.
    """
    config = ds_config.build(settings, world_size)
    nvme.refuse_missing(config)
    monitors.refuse_missing(config)
    return config


def choose_checkpoint(settings: Settings, config: DeepSpeedConfig) -> Found | None:
    """The checkpoint to go on from, if any, once it and `run_dir` are known to fit the settings.

    Raises UsageError and CannotStart, as `train` does.
    """
    found = shelf.find(settings.resume, settings.run_dir)
    root = (settings.run_dir or Path("runs")).absolute()
    if settings.resume == "auto" or (found is not None and found.directory.is_relative_to(root / shelf.FOLDER)):
        run_dir.refuse_foreign(root)
    else:
        run_dir.refuse_used(settings.run_dir)
    if found is not None:
        changes.refuse(found, changes.record(settings, config))
    return found
