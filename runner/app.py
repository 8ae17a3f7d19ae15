"""The command line: the only module that knows Hydra, which composes the settings and does nothing else."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn, cast

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dsconf import presets
from runner import ancestry, failure, lifeline, logs, run_dir
from runner.errors import BrokenOff, CannotStart, Interrupted, UsageError
from runner.settings import Settings, read

_composed: list[tuple[DictConfig, list[str]]] = []


def main() -> None:
    """Train as the command line says.

    Exits 0; 1 if this machine or its files lack something, or training went wrong; 2 if the command line cannot be
    right; 128 plus the number of a signal that ended the run, after a checkpoint: 130 for Ctrl-C.
    """
    try:
        sys.exit(_run())
    except UsageError as error:
        _fail(str(error), status=2)
    except (CannotStart, BrokenOff) as error:
        _fail(f"error: {error}", status=1)
    except Interrupted as end:
        _stop(f"\n{end}", status=end.status)
    except KeyboardInterrupt:
        _stop("\nstopped by Ctrl-C before the first step", status=130)


def _run() -> int:
    # The deepspeed launcher puts it in front of the arguments, unless it is called with --no_local_rank.
    sys.argv[1:] = [word for word in sys.argv[1:] if not word.startswith(("--local_rank=", "--local-rank="))]
    if len(sys.argv) == 2 and run_dir.is_launch_file(file := Path(sys.argv[1])):
        failure.keep_in(file.parent / run_dir.LOGS, anew=False)
        # One rank of each node is enough: the others end with it.
        if os.environ.get("LOCAL_RANK") == "0":
            ancestry.watch_lock(run_dir.launch_lock(file))
        return _train(read_file(file))
    if any(word in ("-m", "--multirun") for word in sys.argv[1:]):
        raise UsageError("error: one command is one run; --multirun is not supported")
    register_presets()
    try:
        _compose()
    except SystemExit as end:
        # Hydra has said what is wrong, and ends with 1 where the mistake is on the command line.
        return 2 if end.code else 0
    if not _composed:
        return 0
    settings = read_settings(*_composed.pop())
    if settings.launch is not None:
        from runner.launch import launch

        return launch(settings)
    return _train(settings)


def _train(settings: Settings) -> int:
    """Be a rank of the run. A failure that nothing explains is shown by the rank that it happened to first."""
    from runner.train import train

    logs.start()
    try:
        train(settings)
        from runner.engine import disconnect

        disconnect()
    except (UsageError, CannotStart, BrokenOff, Interrupted):
        raise
    except Exception as error:
        # The launcher ends all ranks once one is gone, and this one may have something to say.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        failure.report(error)
        _end(1)
    return 0


def read_file(path: Path) -> Settings:
    """The settings that `launch=deepspeed` wrote down for its ranks. Raises UsageError."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"error: {path} cannot be read as settings: {error}") from None
    return read(cast("dict[str, Any]", values))


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def _compose(config: DictConfig) -> None:
    """Only keep what Hydra composed: whatever fails after this is not Hydra's to report."""
    _composed.append((config, list(HydraConfig.get().overrides.task)))


def register_presets() -> None:
    """Make the presets of dsconf options of the group `preset`, which is merged into `ds_config`."""
    for name in presets.names():
        ConfigStore.instance().store(group="preset", name=name, node=presets.read(name), package="ds_config")
    OmegaConf.register_new_resolver("share", _share, replace=True)


def read_settings(config: DictConfig, overrides: list[str]) -> Settings:
    """What Hydra composed from `overrides`, as settings. Raises UsageError."""
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


def _fail(text: str, *, status: int) -> NoReturn:
    failure.explain(text)
    _end(status)


def _stop(text: str, *, status: int) -> NoReturn:
    """All ranks end alike."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)
    _end(status)


def _end(status: int) -> NoReturn:
    """End before the work is done. Where others wait, nothing is waited for, and libraries are not taken down."""
    if lifeline.fail():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
