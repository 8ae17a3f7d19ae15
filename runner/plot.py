# Matplotlib may be missing, and then brings no types.
"""The course of a run as a picture."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

NAME = "loss.png"


def plot(metrics: Path, output: Path) -> bool:
    """Draw the losses and the learning rate in `metrics`, JSON lines, as a PNG; false if Matplotlib is not installed.

    Raises OSError.
    """
    try:
        figures: Any = import_module("matplotlib.figure")
    except ImportError:
        return False
    lines: list[dict[str, Any]] = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    figure = figures.Figure(figsize=(9, 5))
    losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for axes, name, style in ((losses, "loss", "-"), (losses, "held_out_loss", "o-"), (rates, "lr", "-")):
        points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
        axes.plot(
            [step for step, _ in points],
            [value for _, value in points],
            style,
            label=name.replace("held_out_", "held-out "),
        )
    losses.set_ylabel("loss")
    losses.legend()
    rates.set_ylabel("lr")
    rates.set_xlabel("step")
    figure.savefig(output)
    return True
