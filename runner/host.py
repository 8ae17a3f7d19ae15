"""The memory of this host."""

from __future__ import annotations

import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes of memory that this process and others can still be given, within what a container is allowed."""
    return min([_free(), *_left_to_groups()])


def _free() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            values = dict(line.split(":", 1) for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_to_groups() -> list[int]:
    """What is left to each control group that this process is in; none where there are no limits."""
    found: list[int] = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    except OSError:
        return []
    for group in (_GROUPS / own, *(_GROUPS / own).parents):
        try:
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        # Pages of files are let go when memory is needed.
        found.append(max(0, limit - used + int(counts.get("inactive_file", 0))))
    return found
