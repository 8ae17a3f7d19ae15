"""The directories on local drives that ZeRO offloads to: they are there, and belong to this run alone."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path

from dsconf import DeepSpeedConfig
from runner import ds_config
from runner.errors import CannotStart
from runner.lock import Lock


def refuse_missing(config: DeepSpeedConfig) -> None:
    """Raise CannotStart if a block is to be offloaded to a directory that is not there."""
    for name, path in _paths(config):
        if not path.is_dir():
            fault = "is not a directory" if path.exists() else "does not exist"
            raise CannotStart(
                f"{name}: {path} {fault}; it must be a directory on a local drive, of this run alone: "
                f"ds_config.{name}=DIRECTORY"
            )


@contextlib.contextmanager
def locked(config: DeepSpeedConfig) -> Generator[None]:
    """Keep other runs out of the directories: the files of two would overwrite each other. Once on every host.

    Raises CannotStart if another run has one of them.
    """
    names = {path.resolve(): name for name, path in _paths(config)}
    locks = [Lock(path, name) for path, name in names.items()]
    yield
    locks.clear()


def _paths(config: DeepSpeedConfig) -> Iterator[tuple[str, Path]]:
    """Each directory, with the setting that names it."""
    for name in ("offload_optimizer", "offload_param"):
        offload = ds_config.block(config.to_dict(), "zero_optimization", name)
        if offload.get("device") == "nvme":
            yield f"zero_optimization.{name}.nvme_path", Path(offload.get("nvme_path") or "")
