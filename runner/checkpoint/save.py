"""Writing a checkpoint: by all ranks together, and only counted once all of them agree that it is whole."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from runner import engine as processes
from runner.checkpoint import manifest
from runner.checkpoint.manifest import File, Manifest
from runner.checkpoint.shelf import Shelf
from runner.engine import Engine
from runner.environment import Place
from runner.errors import BrokenOff

#: The one key of a checkpoint's client state that is ours. DeepSpeed merges what it is given over its own entries.
KEY = "runner"


def save(engine: Engine, shelf: Shelf, content: Manifest, state: dict[str, Any], place: Place) -> Path:
    """Save model, optimizer, schedule and the run's own `state`; returns where. All ranks must call it together.

    `content`: without files. Raises BrokenOff on all ranks if any of them cannot write; what was current stays so.
    """
    tag = f"global_step{content.step}"
    partial = shelf.partial(tag)
    if place.leads:
        shutil.rmtree(partial, ignore_errors=True)
    fault = engine.save(partial, {KEY: state})
    told = processes.tell_all(fault)
    if fault := next((each for each in told if each), None):
        _give_up(shelf, partial, fault, place)
    shares = processes.tell_all(_own_share(partial, place))
    files: dict[str, File] = {}
    for share in shares:
        if isinstance(share, str):
            _give_up(shelf, partial, share, place)
        else:
            files.update(share)
    fault = _finish(shelf, tag, content.model_copy(update={"files": files})) if place.leads else None
    if fault := processes.share(fault):
        _give_up(shelf, partial, fault, place)
    return shelf.directory / tag


def _own_share(partial: Path, place: Place) -> dict[str, File] | str:
    """Bring this rank's part of all files to the disk and measure it as it is there; or what went wrong."""
    found: dict[str, File] = {}
    try:
        for name in manifest.payload(partial)[place.rank :: place.world_size]:
            with (partial / name).open("rb") as stream:
                os.fsync(stream.fileno())
            found[name] = manifest.measure(partial / name)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return found


def _finish(shelf: Shelf, tag: str, content: Manifest) -> str | None:
    expected = _shards(content)
    found = sum(name.endswith("_states.pt") for name in content.files)
    if found != expected:
        return f"{expected} files of states were to be written, and there are {found}"
    try:
        shelf.finish(tag, content)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return None


def _shards(content: Manifest) -> int:
    """How many files of states DeepSpeed writes: the model by rank 0 or, sharded, by each; the optimizer by each."""
    match content.stage:
        case 0:
            return 1
        case 3:
            return 2 * content.world_size
        case _:
            return 1 + content.world_size


def _give_up(shelf: Shelf, partial: Path, fault: str, place: Place) -> None:
    """Raise BrokenOff on all ranks, and free the room that the unfinished checkpoint takes."""
    if place.leads:
        shutil.rmtree(partial, ignore_errors=True)
    last = shelf.latest
    good = f"the last good checkpoint is {shelf.directory / last}" if last else "there is no earlier checkpoint"
    raise BrokenOff(
        f"the checkpoint {partial.stem} could not be written: {fault}\n"
        f"  {good}\n"
        f"  help: make room or make it writable (checkpoint.keep_last=1 keeps fewer), then start again with resume=auto"
    )
