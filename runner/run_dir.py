"""The one directory that a run writes to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import yaml

from dsconf import DeepSpeedConfig
from runner.errors import CannotStart
from runner.settings import Settings

DS_CONFIG = "ds_config.json"
SETTINGS = "settings.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"


def refuse_used(path: Path | None) -> None:
    """Raise CannotStart if the directory that was asked for has something in it."""
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CannotStart(f"run_dir: {path} exists and is not empty; a run never writes over an older one")


def create(settings: Settings, config: DeepSpeedConfig) -> Path:
    """Make the directory and write down in it what the run is. For the leading process only.

    The place is `settings.run_dir`, or else a new `runs/<date_time>_<presets>`. Returns an absolute path; raises
    CannotStart if it cannot be made.
    """
    refuse_used(settings.run_dir)
    try:
        path = (_make_new(settings.presets) if settings.run_dir is None else _make(settings.run_dir)).absolute()
        config.write(path / DS_CONFIG)
        document = settings.model_dump(mode="json", exclude={"overrides"})
        written = yaml.safe_dump(document, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]
        (path / SETTINGS).write_text(written, encoding="utf-8")
        (path / OVERRIDES).write_text("".join(f"{override}\n" for override in settings.overrides), encoding="utf-8")
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None
    return path


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
