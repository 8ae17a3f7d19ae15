"""What a job runs on: ranks, and the memory that is left for tensors."""

from __future__ import annotations

from dataclasses import dataclass

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class World:
    """The ranks of a job: `nodes` times `ranks_per_node`, one accelerator each."""

    nodes: int = 1
    ranks_per_node: int = 1

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory of one accelerator, of one node's host, and free on its NVMe drive, in bytes; None means unknown.

    `shared`: ranks compute on the CPU, so that the host's memory is all there is. `set_aside`: a part of each is kept
    back for what is no tensor.
    """

    accelerator_bytes: int | None = None
    host_bytes: int | None = None
    nvme_bytes: int | None = None
    shared: bool = False
    set_aside: bool = True

    @property
    def usable_accelerator_bytes(self) -> int | None:
        """What tensors can have: all but 1.25 GiB for the driver's context and the communicator's buffers, and 7 % that
        the caching allocator loses to fragmentation."""
        if self.accelerator_bytes is None or not self.set_aside:
            return self.accelerator_bytes
        return max(0, int(self.accelerator_bytes * 0.93 - 1.25 * _GIB))

    def usable_host_bytes(self, ranks_per_node: int) -> int | None:
        """What the tensors of a node's ranks can have: all but 5 % for the system and 0.5 GiB for each process."""
        if self.host_bytes is None or not self.set_aside:
            return self.host_bytes
        return max(0, int(self.host_bytes * 0.95 - 0.5 * _GIB * ranks_per_node))


@dataclass(frozen=True, slots=True)
class Shortage:
    """Memory of which there is too little. `where`: accelerator, host or nvme; `over_bytes`: how much is missing."""

    where: str
    over_bytes: int
