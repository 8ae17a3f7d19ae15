"""A run again, from what its directory says that it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from dsconf.overrides import Override, OverrideError, apply
from runner import run_dir
from runner.errors import UsageError
from runner.settings import Settings, read

#: Of Hydra's groups, whose options have been chosen.
_GROUPS = ("preset", "model", "data", "training", "optimizer", "scheduler")


def is_meant(word: str) -> bool:
    """Whether a word of the command line is a directory rather than an override or an option."""
    return "=" not in word and not word.startswith(("-", "~", "+"))


def read_run(directory: Path, words: Sequence[str]) -> Settings:
    """The settings of the run in `directory`, with overrides. It is to begin anew, and to write elsewhere.

    Raises UsageError.
    """
    if not (directory / run_dir.SETTINGS).is_file():
        raise UsageError(
            f"error: {directory} is neither an override, KEY=VALUE, nor the directory of a run, with a "
            f"{run_dir.SETTINGS}; a preset is chosen with +preset=NAME"
        )
    values = {**_load(directory / run_dir.SETTINGS), "run_dir": None, "resume": "never"}
    if words:
        from runner.compose import parse

        for override in parse(words):
            _apply(override, values)
    return read({**values, "overrides": tuple(words)})


def read_file(path: Path) -> Settings:
    """The settings that `launch=deepspeed` wrote down for its ranks. Raises UsageError."""
    return read(_load(path))


def _load(path: Path) -> dict[str, Any]:
    try:
        values: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"error: {path} cannot be read as settings: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"error: {path} cannot be read as settings: it has none")
    return cast("dict[str, Any]", values)


def _apply(override: Override, values: dict[str, Any]) -> None:
    name, *rest = override.path
    value = cast(object, override.value)
    if name == "launch" and not rest and value in ("deepspeed", "none"):
        values["launch"] = {} if value == "deepspeed" else None
        return
    if name == "preset" or (name in _GROUPS and not rest and isinstance(value, str)):
        raise UsageError(
            f"error: the override {override.text} chooses from a group, and this run has chosen; override what the "
            f"option says, as in {name if name != 'preset' else 'ds_config'}.KEY=VALUE, or compose a new run"
        )
    try:
        apply(override, values)
    except OverrideError as error:
        raise UsageError(f"error: the override {error}") from None
