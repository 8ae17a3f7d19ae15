"""Going on from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from runner.checkpoint import random_state
from runner.checkpoint.adam import replay_powers
from runner.checkpoint.save import KEY
from runner.engine import Engine
from runner.environment import Place


def load(engine: Engine, directory: Path, place: Place) -> dict[str, Any]:
    """Restore weights, optimizer, schedule and random generators; returns the run's own state.

    All ranks must call it together.
    """
    state = cast("dict[str, Any]", engine.load(directory)[KEY])
    replay_powers(engine.optimizer, engine.device)
    if len(state["random"]) == place.world_size:
        random_state.restore(state["random"][place.rank])
    return state
