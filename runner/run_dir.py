"""The one directory that a run writes to."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import yaml

from dsconf import DeepSpeedConfig, atomic
from runner import lock
from runner.errors import CannotStart
from runner.lock import Lock
from runner.settings import Settings

DS_CONFIG = "ds_config.json"
SETTINGS = "settings.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
#: Written at the very end of a run that did all it was to do, and only then.
SUMMARY = "summary.json"
#: What each rank printed, and the first failure.
LOGS = "logs"

#: What `launch=deepspeed` leaves for its ranks, which find it in the directory of a new run.
_LAUNCH = re.compile(r"launch(_\d+)?\.(yaml|lock)")


def refuse_used(path: Path | None) -> None:
    """Raise CannotStart if the directory that was asked for has something in it."""
    if path is not None and path.exists() and (not path.is_dir() or _used(path)):
        raise CannotStart(
            f"run_dir: {path} exists and is not empty; a run never writes over an older one. To go on with that one: "
            f"resume=auto"
        )


def refuse_foreign(path: Path) -> None:
    """Raise CannotStart if the directory has something in it that is not a run."""
    if not (path / SETTINGS).is_file():
        refuse_used(path)


def claim(settings: Settings) -> tuple[Path, Lock]:
    """Make the directory and keep other runs out of it as long as the lock lives. For the leading process only.

    Returns an absolute path; raises CannotStart if it cannot be made, or belongs to another run.
    """
    path = make(settings)
    return path, Lock(path, "run_dir")


def make(settings: Settings) -> Path:
    """Make the directory: `settings.run_dir`, or else a new `runs/<date_time>_<presets>`.

    Returns an absolute path; raises CannotStart.
    """
    try:
        return (_make_new(settings.presets) if settings.run_dir is None else _make(settings.run_dir)).absolute()
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None


def launch_file(node: int) -> str:
    """The name of the file with the settings of the ranks that are started for a node."""
    return f"launch_{node}.yaml" if node else "launch.yaml"


def launch_lock(file: Path) -> Path:
    """What the process that started the ranks with this file has locked for as long as it lives."""
    return file.with_suffix(".lock")


def is_launch_file(path: Path) -> bool:
    """Whether the name is that of such a file."""
    return path.suffix == ".yaml" and _LAUNCH.fullmatch(path.name) is not None


def describe(path: Path, settings: Settings, config: DeepSpeedConfig) -> None:
    """Write down in the directory what the run is. Raises CannotStart."""
    document = settings.model_dump(mode="json", exclude={"overrides"})
    written = yaml.safe_dump(document, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]
    try:
        config.write(path / DS_CONFIG)
        (path / SUMMARY).unlink(missing_ok=True)
        atomic.write_text(path / SETTINGS, written)
        atomic.write_text(path / OVERRIDES, "".join(f"{override}\n" for override in settings.overrides))
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None


def _used(path: Path) -> bool:
    return any(entry.name not in (LOGS, lock.NAME) and not _LAUNCH.fullmatch(entry.name) for entry in path.iterdir())


def _make(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _make_new(presets: tuple[str, ...]) -> Path:
    name = "_".join([datetime.now().strftime("%Y-%m-%d_%H-%M-%S"), "+".join(presets) or "run"])
    path, attempt = Path("runs") / name, 1
    while True:
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            attempt += 1
            path = Path("runs") / f"{name}_{attempt}"
        else:
            return path
