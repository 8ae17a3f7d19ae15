"""A whole training run from plain settings; can be called from a script, a test or a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dsconf import DeepSpeedConfig
from runner import ds_config, environment, run_dir, text
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
    run_dir.refuse_used(settings.run_dir)
    refuse_missing_nvme(config)
    words = text.read(settings.data)
    # torch and DeepSpeed take seconds to import; what can be refused without them has been refused by now.
    from runner import loop

    return loop.run(settings, config, words, place)


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
