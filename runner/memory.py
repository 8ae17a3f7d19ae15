"""Memory as it is: what is free before a run, and what its tensors take."""

from __future__ import annotations

import shutil
from pathlib import Path

from dsconf import DeepSpeedConfig
from dsconf.memory import Machine, show_bytes
from dsconf.memory.account import MEMORY
from runner import engine, host
from runner.ds_config import block
from runner.forecast import Forecast
from runner.tensors import live_bytes


def free(config: DeepSpeedConfig) -> Machine:
    """What is free on the machine of the run that has least; all ranks must call it together."""
    drives = [block(config.to_dict(), "zero_optimization", name) for name in ("offload_optimizer", "offload_param")]
    paths = [Path(drive["nvme_path"]) for drive in drives if drive.get("device") == "nvme"]
    accelerator = engine.free_accelerator_memory()
    drive = min((shutil.disk_usage(path).free for path in paths), default=0)
    hosts, accelerators, nvme = zip(*engine.tell_all((host.free_memory(), accelerator or 0, drive)), strict=True)
    return Machine(
        accelerator_bytes=None if accelerator is None else min(accelerators),
        host_bytes=min(hosts),
        nvme_bytes=min(nvme) if paths else None,
        shared=accelerator is None,
    )


class Meter:
    """What tensors take from now on, on this rank: on its accelerator, or on a CPU anywhere."""

    def __init__(self) -> None:
        self._before = _held()

    def beside(self, forecast: Forecast) -> dict[str, int]:
        """Predicted and measured bytes between two steps and, where somebody counts it, at the peak."""
        found = forecast.account
        places = MEMORY if forecast.machine.shared else ("accelerator",)
        sizes = {"predicted_bytes": found.persistent_bytes(*places), "measured_bytes": _held() - self._before}
        counted = engine.allocated_memory()
        if counted is not None:
            sizes["predicted_peak_bytes"] = found.peak(*places)[1]
            sizes["measured_peak_bytes"] = counted[1] - self._before
        return sizes


def said(sizes: dict[str, int]) -> str:
    """What `Meter.beside` found, in one line."""
    text = f"{show_bytes(sizes['measured_bytes'])} held between steps, {show_bytes(sizes['predicted_bytes'])} predicted"
    if "measured_peak_bytes" in sizes:
        peak, predicted = show_bytes(sizes["measured_peak_bytes"]), show_bytes(sizes["predicted_peak_bytes"])
        text += f"; {peak} at the peak, {predicted} predicted"
    return text


def _held() -> int:
    counted = engine.allocated_memory()
    return live_bytes() if counted is None else counted[0]
