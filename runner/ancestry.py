"""No rank outlives the launcher that started it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from runner import failure, lock

#: Seconds in which a rank may save and end by itself.
_GRACE = 4.0

#: Programs and modules that stay as long as the ranks that they started. A shell need not.
_LAUNCHERS = {
    "runner",
    "deepspeed",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "hydra_pmi_proxy",
    "slurmstepd",
}


def watch_lock(path: Path) -> None:
    """End this process when the lock in this file, which the launcher holds on whatever host, is let go of."""
    if lock.is_held(path):
        _watch(lambda: lock.is_held(path))


def watch_parents() -> None:
    """End this process when one of the launchers above it is gone."""
    watched: dict[int, str] = {}
    pid = os.getppid()
    while pid > 1 and _LAUNCHERS.intersection(_programs(pid)):
        watched[pid] = _started(pid)
        pid = int((_status(pid) or "??0")[1])
    if watched:
        _watch(lambda: all(_started(pid) == since for pid, since in watched.items()))


def _watch(lives: Callable[[], bool]) -> None:
    threading.Thread(target=_end_after, args=(lives,), name="launcher watch", daemon=True).start()


def _end_after(lives: Callable[[], bool]) -> None:
    while lives():
        time.sleep(0.5)
    failure.first("error: what started this run was killed")
    # A run that saves on SIGTERM may do so.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


def _programs(pid: int) -> list[str]:
    """What a process runs: its program, the script if that is an interpreter, the module if that is Python."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []
    module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    # Slurm's own is called by the step as well, as in `slurmstepd: [7.0]`.
    return [*(Path(word).name.partition(":")[0] for word in words[:2]), *module]


def _started(pid: int) -> str:
    """When a process started, in the system's own count; empty if it has ended."""
    status = _status(pid)
    return status[19] if status and status[0] not in "ZX" else ""


def _status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: state, parent, and so on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
