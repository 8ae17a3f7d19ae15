"""What mpirun and srun call a process's place, in the names that torch.distributed reads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from zlib import crc32

from runner.errors import CannotStart

#: Rank, world size, rank on the host, ranks on the host, of Open MPI, MVAPICH, MPICH and Intel MPI, and a Slurm step.
_NAMES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
#: What is the same for all processes of a job and of no other.
_JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "SLURM_STEP_ID")


def adopt(environment: MutableMapping[str, str]) -> None:
    """Set what torch.distributed reads from what mpirun or srun has set; nothing if RANK is set or neither started us.

    Raises CannotStart if the ranks are on several hosts and there is no telling which is the first.
    """
    names = next((names for names in _NAMES if all(name in environment for name in names)), None)
    if names is None or "RANK" in environment:
        return
    rank, world_size, local_rank, counts = (environment[name] for name in names)
    on_host = _count_here(counts, int(environment.get("SLURM_NODEID", "0")))
    alone = on_host == int(world_size)
    if "MASTER_ADDR" not in environment:
        environment["MASTER_ADDR"] = "127.0.0.1" if alone else _first_host(environment)
    job = [environment[name] for name in _JOBS if name in environment] or [str(os.getppid())] * alone
    # Below the ports that systems hand out by themselves.
    environment.setdefault("MASTER_PORT", str(20000 + crc32(" ".join(job).encode()) % 10000 if job else 29500))
    environment.update(RANK=rank, WORLD_SIZE=world_size, LOCAL_RANK=local_rank, LOCAL_WORLD_SIZE=str(on_host))


def first_of(hosts: str) -> str:
    """The first of a list of hosts as Slurm writes it: `node[03-05,9],other`."""
    match = re.match(r"([^\[,]*)(?:\[(\d+)[^\]]*\])?([^,]*)", hosts)
    return "".join(part or "" for part in match.groups()) if match else hosts


def _count_here(counts: str, node: int) -> int:
    """The number of ranks on a node: of `4`, or as Slurm writes it for all nodes, `4(x2),3`."""
    expanded = [int(n) for n, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", counts) for _ in range(int(times or 1))]
    return expanded[node if node < len(expanded) else 0]


def _first_host(environment: Mapping[str, str]) -> str:
    if hosts := environment.get("SLURM_STEP_NODELIST"):
        return first_of(hosts)
    try:
        from mpi4py import MPI  # pyright: ignore
    except ImportError:
        raise CannotStart(
            "the ranks are on several hosts, and without mpi4py they cannot find the first: pip install mpi4py, or "
            "mpirun -x MASTER_ADDR=HOST"
        ) from None
    import socket

    return str(MPI.COMM_WORLD.bcast(socket.gethostname(), root=0))  # pyright: ignore
