"""A checkpoint for another number of ranks: DeepSpeed's universal layout, one file for each parameter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner import engine
from runner.checkpoint.manifest import Manifest
from runner.checkpoint.shelf import Found
from runner.environment import Place
from runner.errors import CannotStart

#: Written beside the converted checkpoint by DeepSpeed.
_POINTER = "latest_universal"


def needed(saved: Manifest, world_size: int) -> bool:
    """Whether the shards of a checkpoint are for another number of ranks. Without ZeRO there are none."""
    return saved.stage > 0 and saved.world_size != world_size


def asked_for(ds_config: dict[str, Any]) -> dict[str, Any]:
    """`ds_config` of a run that starts from such a checkpoint."""
    return {**ds_config, "checkpoint": {**ds_config.get("checkpoint", {}), "load_universal": True}}


@contextmanager
def readable(found: Found, directory: Path, place: Place) -> Generator[Path]:
    """The checkpoint as this many ranks can load it: as it is, or converted, for a while, below `directory`.

    All ranks must enter it together. Raises CannotStart, on all of them, with DeepSpeed's reason for not converting.
    """
    if not needed(found.manifest, place.world_size):
        yield found.directory
        return
    target = directory / f"{found.directory.name}.universal"
    if fault := engine.share(_convert(found.directory, target) if place.leads else None):
        raise CannotStart(f"resume: {found.directory} cannot be converted for another number of ranks: {fault}")
    yield target
    # Not before every rank has read its part.
    engine.share(None)
    if place.leads:
        shutil.rmtree(target, ignore_errors=True)
        (directory / _POINTER).unlink(missing_ok=True)


def _convert(source: Path, target: Path) -> str | None:
    """What went wrong, if anything did."""
    shutil.rmtree(target, ignore_errors=True)
    arguments = ["--input_folder", str(source), "--output_folder", str(target), "--inject_missing_state"]
    workers = ["--num_extract_workers", "1", "--num_merge_workers", "1"]
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", *arguments, *workers]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip() or "no reason given").splitlines()[-1] if done.returncode else None
