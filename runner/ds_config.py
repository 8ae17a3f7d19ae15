"""From settings to a checked DeepSpeed configuration. Knows dsconf, and imports neither torch nor DeepSpeed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, cast

from dsconf import ConfigError, DeepSpeedConfig, Diagnostic, load, presets
from dsconf.diagnostic import Path
from dsconf.overrides import Override, origin, read_value
from runner.errors import UsageError
from runner.settings import Settings, read_overrides

#: Blocks that the run brings itself, whatever the preset says.
OWN_BLOCKS = ("optimizer", "scheduler")


def build(settings: Settings, world_size: int = 1) -> DeepSpeedConfig:
    """The DeepSpeed configuration of a run on `world_size` processes.

    The run's optimizer and scheduler take the place of the preset's; those with a dotted name are none of the file's
    business. Raises UsageError, with everything that is
    wrong and the override that each problem comes from, if DeepSpeed would refuse it or not do what it says.
    """
    overrides = read_overrides(settings.overrides)
    _refuse_overridden_own_blocks(overrides)
    document = _with_sizes_for_people(settings.ds_config, overrides)
    document = {name: value for name, value in document.items() if name not in OWN_BLOCKS}
    if settings.precision == "autocast":
        kind = "float16" if block(document, "fp16").get("enabled") else "bfloat16"
        document["torch_autocast"] = {"enabled": True, "dtype": kind}
        document.update({name: {"enabled": False} for name in ("bf16", "fp16") if name in document})
    if settings.data.loader == "deepspeed":
        # A short batch at the end of an epoch would make positions depend on the number of ranks.
        document["dataloader_drop_last"] = True
    optimizer, scheduler = settings.optimizer, settings.scheduler
    if not optimizer.is_client:
        document["optimizer"] = optimizer.model_dump()
    if scheduler is not None and not scheduler.is_client:
        document["scheduler"] = {"type": scheduler.type, "params": scheduler.params}
    # DeepSpeed takes its own optimizers for CPUs from anybody.
    brought = optimizer.is_client and not optimizer.type.endswith((".DeepSpeedCPUAdam", ".DeepSpeedCPULion"))
    try:
        config = load(document, world_size=world_size, optimizer="client" if brought else None)
    except ConfigError as error:
        found = [item for item in error.diagnostics if item.severity == "error"]
        raise UsageError("\n".join(_explain(item, settings.presets, overrides) for item in found)) from None
    if settings.model.zero_init == "always" and stage(config) < 3:
        raise UsageError(
            f"error: model.zero_init=always: deepspeed.zero.Init shards the parameters, and ZeRO stage {stage(config)} "
            f"cannot train a sharded model; use a stage 3 preset, or model.zero_init=auto"
        )
    return config


def stage(config: DeepSpeedConfig) -> int:
    """The ZeRO stage, 0 to 3."""
    return 0 if config.zero_optimization is None else int(config.zero_optimization.stage)


def block(ds_config: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """The block at `path`; empty if there is none."""
    found: Any = ds_config
    for name in path:
        found = _get(found, name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _refuse_overridden_own_blocks(overrides: Iterable[Override]) -> None:
    for override in overrides:
        section, *path = override.path
        if section == "ds_config" and path and path[0] in OWN_BLOCKS:
            raise UsageError(
                f"error: the override {override.text} would have no effect: the run's {path[0]} has a section of its "
                f"own, which takes the place of the preset's. Override {'.'.join(map(str, path))} instead, or choose "
                f"another with {path[0]}=NAME"
            )


def _with_sizes_for_people(ds_config: dict[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Overridden values such as 500M, 2^20 or 16GiB as numbers; Hydra hands them on as text."""
    document = copy.deepcopy(ds_config)
    for override in overrides:
        section, *path = override.path
        block: Any = document if section == "ds_config" else None
        for name in path[:-1]:
            block = _get(block, name)
        if path and isinstance(written := _get(block, path[-1]), str):
            block[path[-1]] = read_value(written)
    return document


def _explain(item: Diagnostic, names: Iterable[str], overrides: list[Override]) -> str:
    lines = [f"error {item.code} ({item.name}): {item.message}"]
    source = _source([item.path, *(near.path for near in item.related)], names, overrides)
    lines += [f"  {source}"] if source else []
    lines += [f"  help: {item.help}"] if item.help else []
    return "\n".join(lines)


def _source(paths: list[Path], names: Iterable[str], overrides: list[Override]) -> str | None:
    """Where the setting at the first of `paths` that anybody set comes from, in words."""
    if override := origin([place for path in paths for place in (("ds_config", *path), path)], overrides):
        return f"from override: {override.text}"
    for path in paths:
        if path[:1] and path[0] in OWN_BLOCKS:
            return f"from section: {path[0]}"
        for name in reversed(list(names)):
            if _has(presets.read(name), path):
                return f"from preset: {name}"
    return None


def _get(block: Any, name: str | int) -> Any:
    return cast("dict[str | int, Any]", block).get(name) if isinstance(block, dict) else None


def _has(block: Any, path: Path) -> bool:
    for name in path:
        block = _get(block, name)
    return bool(path) and block is not None
