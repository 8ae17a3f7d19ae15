"""The states of all random generators of this process; DeepSpeed keeps none of them."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from runner import engine


def capture() -> dict[str, Any]:
    """Python's, numpy's, torch's and the accelerator's."""
    return {
        "python": random.getstate(),
        "numpy": numpy.random.get_state(),
        "torch": torch.get_rng_state(),
        "accelerator": engine.random_state(),
    }


def restore(state: dict[str, Any]) -> None:
    """Go on where `capture` stood."""
    random.setstate(state["python"])
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    engine.set_random_state(state["accelerator"])


def seed(number: int) -> None:
    """Start all of them from one number."""
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)
