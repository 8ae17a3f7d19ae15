"""This process's place among the processes of the run, as the launcher says it in environment variables."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import ancestry, mpi
from runner.errors import CannotStart

_NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Place:
    """`rank` among `world_size` processes; `local_rank` among the `ranks_per_host` of them on this machine."""

    rank: int
    world_size: int
    local_rank: int
    ranks_per_host: int

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and talks."""
        return self.rank == 0


def prepare() -> Place:
    """Find this process's place; started bare, make the environment of a run of one process.

    To be called before torch is imported, which reads the number of threads. What torchrun or the `deepspeed`
    launcher has set is left as it is; what mpirun and srun say in their own names is taken over. Raises CannotStart
    if a launcher has set only a part of it, or if the port to meet at is in use.
    """
    mpi.adopt(os.environ)
    launched = any(name in os.environ for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    if not launched:
        os.environ.update(
            RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
        )
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        raise CannotStart(
            f"the environment describes a distributed run, but {', '.join(missing)} not set. Start with torchrun or "
            f"with the deepspeed launcher, or unset RANK, LOCAL_RANK and WORLD_SIZE for a run of one process"
        )
    world_size = _number("WORLD_SIZE")
    counted = next((name for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE") if os.environ.get(name)), "WORLD_SIZE")
    place = Place(_number("RANK"), world_size, _number("LOCAL_RANK"), _number(counted))
    if place.ranks_per_host > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // place.ranks_per_host)))
    _let_ninja_be_found()
    if not _have_met():
        ancestry.watch_parents()
        if place.leads:
            refuse_used_port(os.environ["MASTER_ADDR"], _number("MASTER_PORT"))
    return place


def _have_met() -> bool:
    """Whether the ranks have joined already, in an earlier run of this process."""
    distributed: Any = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_initialized())


def refuse_used_port(address: str, port: int) -> None:
    """Raise CannotStart if the port that rank 0 is to listen on is in use. Under torchrun it is, by torchrun."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE"):
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise CannotStart(
                f"port {port}, at which the ranks are to meet on {address}, cannot be used: {error.strerror}. Choose "
                f"another: launch.master_port=, or MASTER_PORT or --master_port of the launcher"
            ) from None


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isdigit():
        raise CannotStart(f"the environment variable {name} must be a whole number, and it is {text!r}")
    return int(text)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _let_ninja_be_found() -> None:
    """DeepSpeed's ops are built with ninja, which pip installs next to a Python that need not be on the PATH."""
    beside = Path(sys.executable).parent
    if shutil.which("ninja") is None and (beside / "ninja").is_file():
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{beside}"
