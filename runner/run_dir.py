"""The one directory that a run writes to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import yaml

from dsconf import DeepSpeedConfig, atomic
from runner.errors import CannotStart
from runner.lock import Lock
from runner.settings import Settings

DS_CONFIG = "ds_config.json"
SETTINGS = "settings.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"


def refuse_used(path: Path | None) -> None:
    """Raise CannotStart if the directory that was asked for has something in it."""
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
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

    The place is `settings.run_dir`, or else a new `runs/<date_time>_<presets>`. Returns an absolute path; raises
    CannotStart if it cannot be made, or belongs to another run.
    """
    try:
        path = (_make_new(settings.presets) if settings.run_dir is None else _make(settings.run_dir)).absolute()
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None
    return path, Lock(path, "run_dir")


def describe(path: Path, settings: Settings, config: DeepSpeedConfig) -> None:
    """Write down in the directory what the run is. Raises CannotStart."""
    document = settings.model_dump(mode="json", exclude={"overrides"})
    written = yaml.safe_dump(document, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]
    try:
        config.write(path / DS_CONFIG)
        atomic.write_text(path / SETTINGS, written)
        atomic.write_text(path / OVERRIDES, "".join(f"{override}\n" for override in settings.overrides))
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None


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
