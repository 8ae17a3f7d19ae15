"""From a command line to settings: the only module that knows Hydra, which composes them and does nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, cast

import hydra
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dsconf import presets
from dsconf.overrides import Override
from runner.errors import UsageError
from runner.settings import Settings, read

_composed: list[tuple[DictConfig, list[str]]] = []


def from_command_line() -> Settings | None:
    """What the command line of this process asks for; none if that was to be told something, such as `--help`.

    Raises UsageError. What Hydra itself finds wrong it has printed, and SystemExit(2) is raised.
    """
    _register()
    try:
        _compose()
    except SystemExit as end:
        # Hydra ends with 1 where the mistake is on the command line.
        raise SystemExit(2 if end.code else 0) from None
    return _read(*_composed.pop()) if _composed else None


def from_overrides(words: Sequence[str]) -> Settings:
    """What a command line of these overrides asks for. Raises UsageError."""
    _register()
    try:
        with initialize_config_module("runner.conf", version_base="1.3"):
            return _read(compose("config", list(words)), list(words))
    except HydraException as error:
        raise UsageError(f"error: {error}") from None


def expand(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The overrides of every run of a sweep: all combinations of the values that are given with commas or ranges.

    Raises UsageError.
    """
    return list(product(*map(_choices, _parse(words))))


def parse(words: Sequence[str]) -> list[Override]:
    """Overrides one by one, for settings that are composed already. Raises UsageError."""
    return [_single(override) for override in _parse(words)]


def _register() -> None:
    """Make the presets of dsconf options of the group `preset`, which is merged into `ds_config`."""
    for name in presets.names():
        ConfigStore.instance().store(group="preset", name=name, node=presets.read(name), package="ds_config")
    OmegaConf.register_new_resolver("share", _share, replace=True)


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def _compose(config: DictConfig) -> None:
    """Only keep what Hydra composed: whatever fails after this is not Hydra's to report."""
    _composed.append((config, list(HydraConfig.get().overrides.task)))


def _read(config: DictConfig, overrides: list[str]) -> Settings:
    try:
        values = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise UsageError(f"error: {str(error).splitlines()[0]}") from None
    for name in ("preset", "presets", "overrides"):
        # Where Hydra knows no such group, it takes the choice for a setting, and would train without the preset.
        if name in values:
            raise UsageError(f"error: {name}={values[name]} names no preset; {_how_to_choose()}")
    chosen = [name for text in overrides if text.startswith("+preset=") for name in text[8:].strip("[]").split(",")]
    if not chosen or "ds_config" not in values:
        raise UsageError(f"error: no preset; {_how_to_choose()}")
    return read({**values, "presets": tuple(name.strip() for name in chosen), "overrides": tuple(overrides)})


def _how_to_choose() -> str:
    names = presets.names()
    width = max(len(name) for name in names)
    lines = [f"  +preset={name:{width}}  {presets.summary(name)}" for name in names]
    return "\n".join(["choose one, or several as in +preset=[zero2,fp16]:", *lines])


def _share(whole: object, part: float) -> int:
    """`part` of `whole` steps, at least one. What is no number is left for the settings to refuse."""
    return max(1, round(whole * part)) if isinstance(whole, (int, float)) else 1


def _parse(words: Sequence[str]) -> Iterator[HydraOverride]:
    parser = OverridesParser.create()
    for word in words:
        try:
            yield parser.parse_override(word)
        except HydraException as error:
            raise UsageError(f"error: the override {word}: {error}") from None


def _choices(override: HydraOverride) -> list[str]:
    text = str(override.input_line)
    if not override.is_sweep_override():
        return [text]
    if not override.is_discrete_sweep():
        raise UsageError(f"error: the override {text}: an interval has no end of values; give some, or a range")
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def _single(override: HydraOverride) -> Override:
    text = str(override.input_line)
    if override.is_sweep_override():
        raise UsageError(f"error: the override {text} has several values, and one run takes one; see --multirun")
    path = tuple(int(part) if part.isdigit() else part for part in override.key_or_group.split("."))
    value = cast(object, None if override.is_delete() else override.value())
    return Override(text, path, value, override.is_delete())
