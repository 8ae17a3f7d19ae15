"""A whole training run from plain settings; can be called from a script, a test or a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dsconf import DeepSpeedConfig
from runner import ds_config, environment, run_dir, text
from runner.checkpoint import changes, shelf
from runner.checkpoint.shelf import Found
from runner.errors import CannotStart
from runner.settings import Settings

if TYPE_CHECKING:
    from runner.loop import Summary


def train(settings: Settings) -> Summary:
    """Train, evaluate and save a model; under a launcher, every process calls this.

    Raises UsageError if the settings cannot be right, and CannotStart if this machine or its files lack something.
    """
    place = environment.prepare()
    config = ds_config.build(settings, place.world_size)
    refuse_missing_nvme(config)
    found = choose_checkpoint(settings, config, place.world_size) if place.leads else None
    words = text.read(settings.data)
    # torch and DeepSpeed take seconds to import; what can be refused without them has been refused by now.
    from runner import loop

    return loop.run(settings, config, words, place, found)


def choose_checkpoint(settings: Settings, config: DeepSpeedConfig, world_size: int) -> Found | None:
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
        changes.refuse(found, changes.record(settings, config), world_size)
    return found


def refuse_missing_nvme(config: DeepSpeedConfig) -> None:
    """Raise CannotStart if a block is to be offloaded to a directory that is not there."""
    for name in ("offload_optimizer", "offload_param"):
        offload = ds_config.block(config.to_dict(), "zero_optimization", name)
        path = Path(offload.get("nvme_path") or "")
        if offload.get("device") == "nvme" and not path.is_dir():
            fault = "is not a directory" if path.exists() else "does not exist"
            raise CannotStart(
                f"zero_optimization.{name}.nvme_path: {path} {fault}; it must be a directory on a local drive, of "
                f"this run alone: ds_config.zero_optimization.{name}.nvme_path=DIRECTORY"
            )
