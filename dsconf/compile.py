"""The compiler: presets and overrides in, a checked configuration out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from dsconf import presets
from dsconf.check import build
from dsconf.models.config import DeepSpeedConfig
from dsconf.overrides import apply, parse
from dsconf.rules.rule import Context
from dsconf.schema import check_against_schema


def compile_config(
    preset: str | Iterable[str], overrides: Iterable[str] | Mapping[str, Any] = (), *, world_size: int | None = None
) -> DeepSpeedConfig:
    """Merge presets in their order, then apply overrides (`key=value` texts, or a mapping of values).

    What comes out is valid under the rules and the closed JSON Schema.

    Raises:
        KeyError: there is no preset of that name.
        OverrideError: an override cannot be read or applied.
        ConfigError: the result is not a valid configuration.
    """
    values = merged(preset, overrides)
    config = build(DeepSpeedConfig, values, Context(world_size=world_size))
    check_against_schema(config.to_dict())
    return config


def compile_text(
    preset: str | Iterable[str], overrides: Iterable[str] | Mapping[str, Any] = (), context: Context | None = None
) -> str:
    """The canonical text of what `compile_config` makes; a key that the reader fills in stays "auto".

    Raises:
        KeyError: there is no preset of that name.
        OverrideError: an override cannot be read or applied.
        ConfigError: the result is not a valid configuration.
    """
    values = merged(preset, overrides)
    config = build(DeepSpeedConfig, values, context)
    result = config.to_dict()
    left = list(_autos(values))
    for path in left:
        _restore(result, values, path)
    if not left:
        check_against_schema(result)
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _autos(values: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((name, *path) for path in _autos(cast("Mapping[str, Any]", value)))
        elif value == "auto":
            yield (name,)


def _restore(result: dict[str, Any], values: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Take over what stands at a path, with the blocks around it that are not there: typing left them out."""
    name, rest = path[0], path[1:]
    if rest and name in result:
        _restore(result[name], values[name], rest)
    else:
        result[name] = copy.deepcopy(values[name])


def merged(preset: str | Iterable[str], overrides: Iterable[str] | Mapping[str, Any] = ()) -> dict[str, Any]:
    """Presets and overrides put together, before anything is checked."""
    names = preset.split(",") if isinstance(preset, str) else preset
    values: dict[str, Any] = {}
    for name in names:
        values = merge(values, presets.read(name.strip()))
    if isinstance(overrides, Mapping):
        return merge(values, cast("Mapping[str, Any]", overrides))
    for text in overrides:
        apply(parse(text), values)
    return values


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, block by block; everything else replaces."""
    result = copy.deepcopy(dict(below))
    for name, value in above.items():
        old = result.get(name)
        if isinstance(old, dict) and isinstance(value, Mapping):
            result[name] = merge(cast("dict[str, Any]", old), cast("Mapping[str, Any]", value))
        else:
            result[name] = copy.deepcopy(value)
    return result
