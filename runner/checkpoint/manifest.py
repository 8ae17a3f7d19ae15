"""What a complete checkpoint consists of: the file that makes a directory of shards a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dsconf import atomic

#: Beside the shards; a directory without it is no checkpoint.
NAME = "manifest.json"


class File(BaseModel):
    """`digest`: BLAKE2b, 16 bytes, in hexadecimal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: int
    digest: str


class Manifest(BaseModel):
    """`samples` and `tokens`: seen by all ranks together. `held_out_loss`: none if not evaluated at this step.

    `settings`: of the run, with the ds_config as it was given to DeepSpeed. `files`: by path below the directory.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    epoch: int
    samples: int
    tokens: int
    held_out_loss: float | None
    world_size: int
    stage: int
    versions: dict[str, str]
    settings: dict[str, Any]
    files: dict[str, File] = {}

    def write(self, directory: Path) -> None:
        """Put it beside the shards. Raises OSError."""
        atomic.write_text(directory / NAME, self.model_dump_json(indent=2) + "\n")


class Damaged(Exception):
    """A checkpoint that cannot be loaded; says which file is wrong, and how."""


def read(directory: Path) -> Manifest:
    """What the checkpoint in `directory` consists of. Raises Damaged."""
    path = directory / NAME
    if not directory.is_dir():
        raise Damaged(f"{directory} does not exist")
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise Damaged(f"{directory} has no {NAME}: it was never finished") from None
    except (OSError, ValidationError) as error:
        raise Damaged(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def verify(directory: Path) -> Manifest:
    """Read every file of the checkpoint and compare it with the manifest. Raises Damaged, naming all that differ."""
    manifest = read(directory)
    faults = [fault for name, file in manifest.files.items() if (fault := _fault(directory / name, file))]
    if faults:
        raise Damaged("; ".join(faults))
    return manifest


def measure(path: Path) -> File:
    """Size and checksum of a file as it is read back from the disk."""
    digest, size = hashlib.blake2b(digest_size=16), 0
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
            size += len(chunk)
    return File(size=size, digest=digest.hexdigest())


def payload(directory: Path) -> list[str]:
    """The paths, below `directory`, of all files that a manifest lists, sorted."""
    found: Iterable[Path] = (path for path in directory.rglob("*") if path.is_file() and path.name != NAME)
    return sorted(path.relative_to(directory).as_posix() for path in found)


def _fault(path: Path, expected: File) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected.size:
            return f"{path} has {size:,} bytes and should have {expected.size:,}"
        if measure(path) != expected:
            return f"{path} has changed since it was written: its checksum differs"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None
