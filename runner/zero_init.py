"""Whether to build the model under `deepspeed.zero.Init`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

#: Without zero.Init every rank first builds the whole model in host memory; beyond this share of it that is too much.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Decision:
    """`use` it or not, and `why`, in words."""

    use: bool
    why: str


def decide(
    wish: Literal["auto", "always", "never"],
    *,
    stage: int,
    offloads_parameters: bool,
    parameter_bytes: int,
    ranks_per_host: int,
    free_bytes: int,
) -> Decision:
    """`parameter_bytes`: all parameters as built, in float32. `free_bytes`: of host memory, before building."""
    if stage < 3:
        return Decision(False, f"ZeRO stage {stage} trains whole parameters")
    if wish != "auto":
        return Decision(wish == "always", f"model.zero_init={wish}")
    if offloads_parameters:
        return Decision(True, "parameters are offloaded, so no rank should hold them all")
    needed = parameter_bytes * ranks_per_host
    copies = f"{ranks_per_host} whole cop{'y' if ranks_per_host == 1 else 'ies'} would take {size(needed)}"
    free = f"{size(free_bytes)} of host memory free"
    if needed > SHARE * free_bytes:
        return Decision(True, f"{copies}, with only {free}")
    return Decision(False, f"{copies}, with {free}")


def free_host_memory() -> int:
    """Bytes of memory that this machine can still give away."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            values = dict(line.split(":", 1) for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def size(count: int) -> str:
    """Bytes in a unit for people: `7.5 MB`."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
