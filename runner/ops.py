"""The C++ ops that DeepSpeed compiles on first use: make sure that they can be had, then have them.

Done here, before DeepSpeed asks for them in the middle of its own start, so that a missing compiler, missing
headers or a lock left by a killed build are named instead of a hang or a page of traceback.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Timer
from typing import Any, cast

from runner.ds_config import block
from runner.errors import CannotStart

#: A build directory in which nothing has changed for so many seconds is dead, where its builder cannot be seen.
QUIET = 600.0

#: An op that has not loaded after so many seconds is being compiled.
SLOW = 5.0

_OFFLOADED = {"adam": "CPUAdamBuilder", "adagrad": "CPUAdagradBuilder", "lion": "CPULionBuilder"}
_ON_DEVICE = {"adam": "FusedAdamBuilder", "lion": "FusedLionBuilder", "lamb": "FusedLambBuilder"}


def needed(ds_config: Mapping[str, Any], accelerator: str) -> list[str]:
    """The names of DeepSpeed's builders for the ops that a run of `ds_config` will load on `accelerator`."""
    devices = {
        name: block(ds_config, "zero_optimization", name).get("device", "none")
        for name in ("offload_optimizer", "offload_param")
    }
    kind = str(block(ds_config, "optimizer").get("type", "")).lower()
    kind = "adam" if kind in ("adamw", "muon") else kind
    builders: list[str] = []
    if accelerator == "cpu":
        builders.append("ShareMemCommBuilder")
    if not block(ds_config, "optimizer", "params").get("torch_adam"):
        offloaded = devices["offload_optimizer"] != "none"
        builders += [name for name in [(_OFFLOADED if offloaded else _ON_DEVICE).get(kind)] if name]
    if "nvme" in devices.values():
        # Loading the second loads the first, so that its lock must have been looked at by then.
        builders += ["PinMemoryBuilder", "AsyncIOBuilder"]
    return builders


def load(ds_config: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Load every op that the run needs, compiling the missing ones. `say` hears what takes long.

    Raises CannotStart if an op does not exist for this accelerator, cannot be compiled here, or waits for a build
    that nobody is doing any more.
    """
    from deepspeed.accelerator import get_accelerator

    accelerator = cast(Any, get_accelerator())
    name = str(accelerator.device_name())
    builders: dict[str, Any] = {each: accelerator.create_op_builder(each) for each in needed(ds_config, name)}
    for builder_name, builder in builders.items():
        if builder is None or type(builder).__name__ == "NotImplementedBuilder":
            optimizer = block(ds_config, "optimizer").get("type")
            raise CannotStart(
                f"optimizer {optimizer} has no {name} version in DeepSpeed unless its state is offloaded: choose a "
                f"preset that offloads the optimizer, or another optimizer (optimizer=adamw)"
            )
        if builder_name == "AsyncIOBuilder" and not builder.is_compatible(verbose=False):
            raise CannotStart(
                "offloading to NVMe needs the headers of libaio, and they are not found: install libaio-dev "
                "(Debian, Ubuntu) or libaio-devel (Fedora, RHEL), or set CFLAGS and LDFLAGS to where they are"
            )
    for builder in builders.values():
        _load(builder, say)


def _load(builder: Any, say: Callable[[str], None]) -> None:
    from deepspeed.git_version_info import installed_ops

    if not installed_ops.get(builder.name, False):
        directory = build_directory(builder.name)
        wait_for_builder(directory / "lock", say)
        if not (directory / f"{builder.name}.so").exists():
            require_compiler(builder.name)
    # Built code loads within seconds. Whether it must be built again only ninja knows, so tell by the time it takes.
    word = Timer(SLOW, say, [f"compiling {builder.name}, once for this machine; this takes a minute or more"])
    word.daemon = True
    word.start()
    try:
        builder.load(verbose=False)
    except RuntimeError as error:
        raise CannotStart(f"DeepSpeed's op {builder.name} cannot be built:\n{error}") from None
    finally:
        word.cancel()


def build_directory(op: str) -> Path:
    """Where torch keeps the built op."""
    from torch.utils.cpp_extension import _get_build_directory  # pyright: ignore[reportPrivateUsage]

    return Path(_get_build_directory(op, verbose=False))


def require_compiler(op: str) -> None:
    """Raise CannotStart if there is no C++ compiler to build `op` with."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        raise CannotStart(
            f"DeepSpeed must compile its op {op} for this run, and the C++ compiler {compiler!r} is not found: install "
            f"one (for instance the package g++), set CXX to it, or use optimizer.params.torch_adam=true in a run "
            f"without offloading"
        )


def wait_for_builder(lock: Path, say: Callable[[str], None]) -> None:
    """Wait while some process builds the op under `lock`; raise CannotStart if the lock is left over.

    torch waits for such a file for ever, whoever made it. The builder keeps it open for as long as it works, so
    on this machine an unopened lock belongs to nobody. A builder on another machine that shares the directory
    cannot be seen; there the lock counts as left over once nothing has moved next to it for a while.
    """
    said = False
    while lock.exists():
        if not _is_open(lock) and (_on_local_disk(lock) or _quiet_for(lock.parent) > QUIET):
            if not lock.exists():
                return
            raise CannotStart(
                f"the file {lock} was left behind by a build that was killed, and DeepSpeed would wait for it for "
                f"ever. No process here is building. Remove it and start again:\n  rm {lock}"
            )
        if not said:
            say(f"waiting for another process that compiles {lock.parent.name}")
            said = True
        time.sleep(0.5)


def _is_open(file: Path) -> bool:
    """Whether a process that we may look into has the file open."""
    try:
        wanted = file.stat()
    except OSError:
        return False
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found = descriptor.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _on_local_disk(file: Path) -> bool:
    """Whether only this machine can write there; false where there is no telling."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return False
    place = file.resolve()
    inside = [(len(mount[1]), mount[2]) for mount in mounts if place.is_relative_to(mount[1])]
    return bool(inside) and max(inside)[1] in {
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "btrfs",
        "zfs",
        "tmpfs",
        "overlay",
        "f2fs",
    }


def _quiet_for(directory: Path) -> float:
    """Seconds since anything in the directory has changed."""
    changed = [entry.stat().st_mtime for entry in (directory, *directory.iterdir()) if entry.exists()]
    return time.time() - max(changed)
