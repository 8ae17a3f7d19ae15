"""The only module that writes checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.engine import Engine


def save(engine: Engine, directory: Path, state: dict[str, Any]) -> Path:
    """Save model, optimizer, schedule and the run's own `state`; returns where. All ranks must call it together.

    DeepSpeed merges what it is given over its own entries, so everything of the run stands under one key.
    """
    engine.deepspeed.save_checkpoint(str(directory), client_state={"runner": state})
    return directory / f"global_step{engine.deepspeed.global_steps}"
