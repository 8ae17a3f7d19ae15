"""How much a process grows while it builds the runner's model, whole or under `deepspeed.zero.Init`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.engine import Request, Verdict


@dataclass(frozen=True, slots=True)
class BuildRequest(Request):
    """Only build a model of this `shape`, the settings of `runner.model.gpt`."""

    shape: Mapping[str, Any] = field(default_factory=dict)

    def rank(self, file: Path) -> Verdict:
        import deepspeed

        from runner.model.gpt import GPT
        from runner.settings import ModelSettings

        deepspeed.init_distributed("gloo", verbose=False)
        shape = ModelSettings(**self.shape)
        deepspeed.comm.barrier()
        before = _resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        with deepspeed.zero.Init(config_dict_or_path=str(file), enabled=bool(self.zero_init)):
            kept = GPT(shape)
        grown = {"bytes": _resident("VmHWM") - before}
        deepspeed.comm.barrier()
        found = [grown] * self.world_size
        deepspeed.comm.all_gather_object(found, grown)
        del kept
        return Verdict("done", measured=tuple(found))


def _resident(name: str) -> int:
    """Bytes of this process in memory now (`VmRSS`), or at most since the counter was set back (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
