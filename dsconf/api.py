"""The library's two doors for configurations that exist already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsconf.check import build, check, check_values
from dsconf.diagnostic import ConfigError, Diagnostic
from dsconf.models.config import DeepSpeedConfig
from dsconf.rules.rule import Context
from dsconf.source import read_file

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | Mapping[str, Any]


def load(source: Source, *, world_size: int | None = None) -> DeepSpeedConfig:
    """Read a configuration from a file or a mapping and type it.

    Old spellings and coerced values come out as the engine uses them. `world_size`: number of ranks, if known.

    Raises:
        ConfigError: with every diagnostic, when one of them is an error.
        OSError: the file cannot be read.
    """
    context = Context(world_size=world_size)
    if isinstance(source, Mapping):
        return build(DeepSpeedConfig, source, context)
    report = check(read_file(source), context)
    if report.config is None:
        raise ConfigError(report.diagnostics)
    return report.config


def validate(source: Source, *, world_size: int | None = None) -> tuple[Diagnostic, ...]:
    """Say everything there is to say about a configuration in a file or a mapping, in file order.

    Raises:
        OSError: the file cannot be read.
    """
    context = Context(world_size=world_size)
    if isinstance(source, Mapping):
        return check_values(source, context)
    return check(read_file(source), context).diagnostics
