"""The library's two doors for configurations that exist already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsconf.check import build, check, check_values
from dsconf.diagnostic import ConfigError, Diagnostic
from dsconf.job import check_facts
from dsconf.models.config import DeepSpeedConfig
from dsconf.rules.rule import Context, Owner, Reader
from dsconf.source import read_file
from dsconf.training_args import read_training_args

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | Mapping[str, Any]


def load(
    source: Source,
    *,
    world_size: int | None = None,
    reader: Reader = "deepspeed",
    training_args: Source | None = None,
    job: Mapping[str, Any] | None = None,
    optimizer: Owner | None = None,
) -> DeepSpeedConfig:
    """Read a configuration from a file or a mapping and type it.

    Old spellings and coerced values come out as the engine uses them; a key that the reader fills in because it is
    "auto" has no value yet and is absent. For the arguments see `validate`.

    Raises:
        ConfigError: with every diagnostic, when one of them is an error.
        JobError: a fact about the job is unknown or has a value that it cannot have.
        TrainingArgsError: the file of training arguments cannot be understood.
        OSError: a file cannot be read.
    """
    context = _context(world_size, reader, training_args, job, optimizer)
    if isinstance(source, Mapping):
        return build(DeepSpeedConfig, source, context)
    report = check(read_file(source), context)
    if report.config is None:
        raise ConfigError(report.diagnostics)
    return report.config


def validate(
    source: Source,
    *,
    world_size: int | None = None,
    reader: Reader = "deepspeed",
    training_args: Source | None = None,
    job: Mapping[str, Any] | None = None,
    optimizer: Owner | None = None,
) -> tuple[Diagnostic, ...]:
    """Say everything there is to say about a configuration in a file or a mapping, in file order.

    `world_size`: number of ranks, if known. `reader`: the program that reads the file and fills in "auto" before
    DeepSpeed sees it. `training_args`: that program's own arguments, a mapping or a JSON or YAML file. `job`: what
    else is known, by the names in `dsconf.job.FACTS`. `optimizer`: who brings it, the file, the script (`client`) or
    nobody.

    Raises:
        JobError: a fact about the job is unknown or has a value that it cannot have.
        TrainingArgsError: the file of training arguments cannot be understood.
        OSError: a file cannot be read.
    """
    context = _context(world_size, reader, training_args, job, optimizer)
    if isinstance(source, Mapping):
        if not isinstance(source, dict):
            context = context._replace(container=type(source).__name__)
        return check_values(source, context)
    return check(read_file(source), context).diagnostics


def _context(
    world_size: int | None,
    reader: Reader,
    training_args: Source | None,
    job: Mapping[str, Any] | None,
    optimizer: Owner | None,
) -> Context:
    known = Context(world_size=world_size, reader=reader, optimizer=optimizer, **check_facts(job or {}))
    if training_args is None or isinstance(training_args, Mapping):
        return known._replace(training_args=training_args)
    return known.with_training_args(read_training_args(training_args))
