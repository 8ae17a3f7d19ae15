"""Older DeepSpeed releases, set up beside the installed one, on the same Python and torch.

A release gets a folder of its own, which goes before everything else on the path of the engine's process. What it
needs besides, to run on a torch that is newer than it and without the packages that its CPU backend was written for,
is given to it here; nothing of that touches how it reads a configuration.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

#: Modules that the CPU backend of old releases imports and does not need.
_STAND_INS = ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch")
#: The first release that imports what Pydantic 2 keeps of Pydantic 1 by its new name.
_SINCE_PYDANTIC_2 = (0, 11)


def number(release: str) -> tuple[int, ...]:
    """A release to compare by."""
    return tuple(int(part) for part in release.split("+")[0].split("."))


def installed() -> str:
    """The release in this environment.

    Raises:
        RuntimeError: there is none.
    """
    try:
        return version("deepspeed")
    except PackageNotFoundError:
        raise RuntimeError("DeepSpeed is not installed here") from None


def cache() -> Path:
    """Where releases are set up."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dsconf" / "deepspeed"


def set_up(release: str, root: Path | None = None) -> Path:
    """The folder of a release, fetched from the package index if it is not there yet.

    Raises:
        RuntimeError: pip could not install it.
    """
    root = root or cache()
    site = root / release
    if (site / "deepspeed").is_dir():
        return site
    paths = [str(_stand_ins(root))]
    if number(release) < _SINCE_PYDANTIC_2:
        paths.append(str(root / "pydantic-1"))
        _install("pydantic<2", root / "pydantic-1", {})
    _install(f"deepspeed=={release}", site, {"PYTHONPATH": os.pathsep.join(paths), "DS_BUILD_OPS": "0"})
    return site


def _install(what: str, site: Path, environment: dict[str, str]) -> None:
    print(f"proof: installing {what} in {site}", file=sys.stderr)
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-compile")
    done = subprocess.run(
        (*pip, "--target", str(site), what),
        env={**os.environ, "DS_ACCELERATOR": "cpu", **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"pip could not install {what}: {done.stderr.strip().splitlines()[-1:] or 'no reason given'}"
        )


def _stand_ins(root: Path) -> Path:
    folder = root / "stand_ins"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _STAND_INS:
        (folder / f"{name}.py").touch()
    return folder


def environment(site: Path) -> dict[str, str]:
    """What the process of an older engine needs in its environment."""
    (release,) = (item.version for item in distributions(name="deepspeed", path=[str(site)]))
    paths = [str(site)]
    if number(release) <= (0, 14, 2):
        paths.append(str(_stand_ins(site.parent)))
    root = str(Path(__file__).resolve().parent.parent)
    given = {"PYTHONPATH": os.pathsep.join((*paths, root)), "TORCH_EXTENSIONS_DIR": str(site.parent / f"ops-{release}")}
    if number(release) < (0, 16):
        # Its own checkpoints hold more than tensors, which torch would otherwise not load since 2.6.
        given["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    return given


def prepare(release: str) -> None:
    """Give an old release, before it is imported, what it imports from packages that no longer have it."""
    if number(release) < _SINCE_PYDANTIC_2:
        import pydantic.v1

        sys.modules["pydantic"] = pydantic.v1
    if number(release) <= (0, 14, 2):
        import logging

        import numpy
        import torch.distributed.elastic.agent.server.api as api

        # Only the autotuner and the elastic agent, which no configuration starts, use these.
        vars(numpy).setdefault("BUFSIZE", 8192)
        for name, value in (("log", logging.getLogger(api.__name__)), ("_get_socket_with_port", None)):
            if not hasattr(api, name):
                setattr(api, name, value)


def adapt(release: str) -> None:
    """Let an old release use what the CPU has today: gloo, no streams, gradients that torch calls by another name."""
    from deepspeed.accelerator import get_accelerator

    accelerator: Any = get_accelerator()
    if number(release) <= (0, 14, 2):
        accelerator._communication_backend_name = "gloo"
        if accelerator.current_stream() is None:
            stream = SimpleNamespace(synchronize=lambda: None, wait_stream=lambda other: None)
            accelerator.current_stream = accelerator.default_stream = lambda *_: stream
    if number(release) <= (0, 12, 6):
        import deepspeed.runtime.engine as engine

        def by_type(gradients: list[Any]) -> list[tuple[str, list[Any]]]:
            kinds = dict.fromkeys(item.type() for item in gradients)
            return [(kind, [item for item in gradients if item.type() == kind]) for kind in kinds]

        engine.split_half_float_double_sparse = by_type
