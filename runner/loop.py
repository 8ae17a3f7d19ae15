"""The run itself: build, train, evaluate, save."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from dsconf import DeepSpeedConfig, atomic
from runner import dotted, engine, failure, logs, memory, monitors, ops, plot, run_dir, sharded
from runner.checkpoint import changes, random_state, universal
from runner.checkpoint.load import load
from runner.checkpoint.manifest import Manifest
from runner.checkpoint.shelf import FOLDER, Found, Shelf
from runner.ds_config import stage
from runner.engine import Engine
from runner.environment import Place
from runner.errors import BrokenOff, CannotStart, UsageError
from runner.evaluate import Judgement
from runner.feed import Feed, Loaded, Shared
from runner.fit import Fit
from runner.forecast import Forecast, describe, forecast
from runner.guard import OUT_OF_MEMORY_HELP, is_out_of_memory, is_timeout, stalled
from runner.metrics import Metrics
from runner.model.build import build, freeze, objective
from runner.progress import Progress
from runner.settings import DatasetSettings, Settings
from runner.source import Source, of_datasets, of_text
from runner.text import Text, read

_Maker = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to. `bigram_loss`: of the yardstick, where there is one; like the other in nats per byte."""

    run_dir: Path
    checkpoint: Path
    held_out_loss: float
    accuracy: float | None
    bigram_loss: float | None


def run(settings: Settings, config: DeepSpeedConfig, text: Text | None, place: Place, found: Found | None) -> Summary:
    """Train under `config`, which must be for `place.world_size` processes.

    `text`: what to train on, unless the settings name datasets. `found`: the checkpoint to go on from; what rank 0
    says of it counts.
    """
    progress = Progress(leads=place.leads)
    document = config.to_dict()
    made = (*_brought(settings), _source(settings, text))
    engine.refuse_unsupported_precision(document)
    ops.load(document, progress.say)
    engine.connect(place, settings.distributed)
    try:
        return _run(settings, config, place, found, *made, progress)
    except RuntimeError as error:
        if not is_timeout(error):
            raise
        raise stalled("outside of the steps", settings.distributed.timeout_minutes) from None


def _run(
    settings: Settings,
    config: DeepSpeedConfig,
    place: Place,
    found: Found | None,
    optimizer: _Maker | None,
    schedule: _Maker | None,
    source: Source,
    progress: Progress,
) -> Summary:
    claimed = run_dir.claim(settings) if place.leads else None
    locks = [claimed[1]] if claimed else []
    if claimed:
        failure.keep_in(claimed[0] / run_dir.LOGS, anew=True)
    directory = engine.share(claimed[0] if claimed else Path())
    failure.keep_in(directory / run_dir.LOGS, anew=False)
    logs.keep_in(directory / run_dir.LOGS, place.rank)
    found = engine.share(found)
    config = monitors.place(config, directory)
    if place.leads:
        run_dir.describe(directory, settings, config)
    metrics = Metrics(directory / run_dir.METRICS if place.leads else None)

    meter = memory.Meter()
    document = config.to_dict()
    if found is not None and universal.needed(found.manifest, place.world_size):
        document = universal.asked_for(document)
    try:
        trained, expected = _trained(settings, config, document, place, source, optimizer, schedule, progress)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).splitlines()[0]
        raise CannotStart(f"memory ran out before the first step: {reason}\n{OUT_OF_MEMORY_HELP}") from None
    per_epoch = settings.scheduler is not None and settings.scheduler.interval == "epoch"
    stepped = schedule(trained.optimizer) if schedule and per_epoch else None
    start, state = _start(settings, config, place, trained, found, directory, progress)
    try:
        metrics.rewind(start.step)
        if place.leads and found is not None and found.directory.parent == directory / FOLDER:
            Shelf(directory / FOLDER).make_current(found.directory.name)
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None
    progress.say(source.words)

    feed = _feed(settings, source, trained, place)
    shelf = Shelf(directory / FOLDER)
    fit = Fit(settings, trained, feed, source, place, shelf, metrics, progress, start, stepped)
    saved, judged = fit.run(state)
    summary = Summary(directory, saved, judged.loss, judged.accuracy, source.yardstick)
    # Its tensors are the order's, and not in the account.
    source.order.forget()
    del fit, feed
    sizes = meter.beside(expected) if expected else None
    if place.leads:
        try:
            metrics.flush()
            _conclude(summary, settings.training.steps, sizes, progress)
        except OSError as error:
            raise BrokenOff(
                f"run_dir: cannot write to {error.filename or directory}: {error.strerror}\n"
                f"  the last good checkpoint is {saved}, of the last step\n"
                f"  help: make room; resume=auto run_dir={directory} then only evaluates and concludes"
            ) from None
    locks.clear()
    return summary


def _conclude(summary: Summary, steps: int, sizes: dict[str, int] | None, progress: Progress) -> None:
    """Say what the run came to, and write it down as numbers and as a picture."""
    directory = summary.run_dir
    if sizes:
        progress.say(f"memory of rank 0: {memory.said(sizes)}")
    if summary.bigram_loss is None:
        progress.say(str(Judgement(summary.held_out_loss, summary.accuracy)))
    else:
        bigram = f"(a bigram model: {summary.bigram_loss:.2f})"
        progress.say(f"held-out loss {summary.held_out_loss:.2f} nats per byte {bigram}")
    written = {
        "step": steps,
        "held_out_loss": summary.held_out_loss,
        "accuracy": summary.accuracy,
        "bigram_loss": summary.bigram_loss,
        "checkpoint": summary.checkpoint.relative_to(directory).as_posix(),
        "memory": sizes,
    }
    atomic.write_text(directory / run_dir.SUMMARY, json.dumps(written, indent=2) + "\n")
    if not plot.plot(directory / run_dir.METRICS, directory / plot.NAME):
        progress.say("no plot of the losses: Matplotlib is not installed: pip install 'dsconf[plot]'")
    progress.say(f"everything is in {directory}; the checkpoint is {summary.checkpoint.relative_to(directory)}")


def _trained(
    settings: Settings,
    config: DeepSpeedConfig,
    document: dict[str, Any],
    place: Place,
    source: Source,
    optimizer: _Maker | None,
    schedule: _Maker | None,
    progress: Progress,
) -> tuple[Engine, Forecast | None]:
    model, expected = _build(settings, config, place, document, progress)
    trained = Engine(
        model,
        document,
        optimizer=optimizer,
        scheduler=schedule if settings.scheduler and settings.scheduler.interval == "step" else None,
        objective=objective(settings.model),
        training_data=source.dataset if settings.data.loader == "deepspeed" else None,
        collate=source.collate,
    )
    return trained, expected


def _source(settings: Settings, text: Text | None) -> Source:
    seed = settings.training.seed
    if isinstance(settings.data, DatasetSettings):
        return of_datasets(settings.data, seed)
    return of_text(text or read(settings.data), settings.data.sequence_length, seed)


def _feed(settings: Settings, source: Source, trained: Engine, place: Place) -> Feed:
    if trained.loader is None:
        return Shared(source.order, place, trained.micro_batch_size)
    if not len(trained.loader):
        raise CannotStart(
            f"data: {len(source.dataset)} samples to train on are less than the one micro-batch of each rank that "
            f"DeepSpeed's loader takes at least: lower train_micro_batch_size_per_gpu, or take data.loader=runner"
        )
    return Loaded(trained.loader, settings.training.seed, place, trained.micro_batch_size)


def _brought(settings: Settings) -> tuple[_Maker | None, _Maker | None]:
    """What makes the optimizer of parameters, and the schedule of an optimizer, where DeepSpeed does not."""
    optimizer, scheduler = settings.optimizer, settings.scheduler
    return (
        dotted.bind(optimizer.type, optimizer.params, "optimizer", "parameters") if optimizer.is_client else None,
        dotted.bind(scheduler.type, scheduler.params, "scheduler", "optimizer")
        if scheduler is not None and scheduler.is_client
        else None,
    )


def _start(
    settings: Settings,
    config: DeepSpeedConfig,
    place: Place,
    trained: Engine,
    found: Found | None,
    directory: Path,
    progress: Progress,
) -> tuple[Manifest, dict[str, Any]]:
    """Where the run stands, and its own state: those of the checkpoint, or of a beginning."""
    record = changes.record(settings, config)
    fresh = Manifest(
        step=0,
        epoch=0,
        samples=0,
        tokens=0,
        held_out_loss=None,
        world_size=place.world_size,
        stage=stage(config),
        versions={name: version(name) for name in ("torch", "deepspeed")},
        settings=record,
    )
    if found is None:
        return fresh, {}
    for fault in found.passed_over:
        progress.say(f"passed over a damaged checkpoint: {fault}")
    with universal.readable(found, directory / FOLDER, place) as source:
        state = load(trained, source, place)
    ranks = found.manifest.world_size
    others = f", which {ranks} rank{'s' if ranks > 1 else ''} saved" if ranks != place.world_size else ""
    progress.say(f"goes on after step {found.manifest.step}, from {found.directory}{others}")
    for change in changes.compare(found.manifest.settings, record):
        progress.say(f"  changed since then: {change}")
    reached = {name: state[name] for name in ("step", "epoch", "samples", "tokens")}
    return fresh.model_copy(update=reached), state


def _build(
    settings: Settings, config: DeepSpeedConfig, place: Place, document: dict[str, Any], progress: Progress
) -> tuple[nn.Module, Forecast | None]:
    """The model, and what the run was said to need before it was built, where that can be known."""
    model = describe(settings.model)
    processes = "1 process" if place.world_size == 1 else f"{place.world_size} processes"
    where = f"ZeRO stage {stage(config)}, {processes} on {engine.accelerator()}"
    if model is None:
        said, use = None, settings.model.zero_init == "always"
        progress.say(f"model: of a size that is only known once it is built, {where}")
    else:
        progress.say(f"model: {model.count / 1e6:.2f} million parameters, {where}")
        said = forecast(settings, config, model, place, memory.free(config))
        use = said.zero_init
        progress.say(f"zero.Init: {'yes' if use else 'no'} ({said.why})")
        progress.say(f"memory: {said.summary}")
        said.refuse_shortage()
    built = _construct(settings, document, progress, use=use)
    frozen, total = freeze(built, settings.model.freeze)
    if frozen:
        progress.say(
            f"frozen: {frozen / 1e6:.2f} million of them; checkpoints and exports have these too, in the type they are "
            f"kept in, but float32 copies and optimizer states of the other {(total - frozen) / 1e6:.2f} million only"
        )
    return built, said


def _construct(settings: Settings, document: dict[str, Any], progress: Progress, *, use: bool) -> nn.Module:
    """The model, under zero.Init if that is of `use` and can be; its weights depend on the seed alone."""
    random_state.seed(settings.training.seed)
    if not use:
        return build(settings.model)
    try:
        with sharded.construction(document):
            return build(settings.model)
    except sharded.Touched as error:
        if settings.model.zero_init == "always":
            raise UsageError(
                f"error: model.zero_init=always: {error}: it would see or change nothing. Set first values in the "
                f"module that owns the weight, or by self.apply, or take model.zero_init=never"
            ) from None
        progress.say(f"zero.Init: no after all ({error}); the model is built whole")
    random_state.seed(settings.training.seed)
    return build(settings.model)
