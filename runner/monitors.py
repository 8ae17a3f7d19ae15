"""DeepSpeed's monitors: what they write goes into the run directory, and what they need must be installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from dsconf import DeepSpeedConfig, load
from runner.ds_config import block
from runner.errors import CannotStart

_FOLDER = "monitor"
#: The package that each of them writes with.
_NEEDS = {"tensorboard": "tensorboard", "wandb": "wandb", "comet": "comet_ml", "csv_monitor": None}


def refuse_missing(config: DeepSpeedConfig) -> None:
    """Raise CannotStart if a monitor is enabled whose package is not installed."""
    for name in _enabled(config.to_dict()):
        package = _NEEDS[name]
        if package and importlib.util.find_spec(package) is None:
            raise CannotStart(f"ds_config.{name} is enabled, and its package is not installed: pip install {package}")


def place(config: DeepSpeedConfig, directory: Path) -> DeepSpeedConfig:
    """The same with `directory` as the place of all that monitors write, unless the settings name another."""
    document = config.to_dict()
    enabled = _enabled(document)
    if "wandb" in enabled:
        os.environ.setdefault("WANDB_DIR", str(directory))
    files = [name for name in enabled if name in ("tensorboard", "csv_monitor")]
    for name in files:
        document[name] = {"output_path": str(directory / _FOLDER), "job_name": name, **document[name]}
    return load(document) if files else config


def _enabled(document: dict[str, Any]) -> list[str]:
    return [name for name in _NEEDS if block(document, name).get("enabled")]
