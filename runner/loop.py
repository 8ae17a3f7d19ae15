"""The run itself: build, train, evaluate, save."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dsconf import DeepSpeedConfig, atomic
from runner import dotted, engine, failure, logs, memory, ops, run_dir
from runner.checkpoint import changes, random_state, universal
from runner.checkpoint.load import load
from runner.checkpoint.manifest import Manifest
from runner.checkpoint.shelf import FOLDER, Found, Shelf
from runner.data import TrainingOrder, as_tokens
from runner.ds_config import stage
from runner.engine import Engine
from runner.environment import Place
from runner.evaluate import bigram_loss
from runner.fit import Fit
from runner.forecast import Forecast, describe, forecast
from runner.metrics import Metrics
from runner.model.gpt import GPT
from runner.progress import Progress
from runner.settings import Settings
from runner.text import Text

_Maker = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; losses in nats per byte of held-out text."""

    run_dir: Path
    checkpoint: Path
    held_out_loss: float
    bigram_loss: float


def run(settings: Settings, config: DeepSpeedConfig, text: Text, place: Place, found: Found | None) -> Summary:
    """Train on `text` under `config`, which must be for `place.world_size` processes.

    `found`: the checkpoint to go on from; what rank 0 says of it counts.
    """
    progress = Progress(leads=place.leads)
    document = config.to_dict()
    optimizer, schedule = _brought(settings)
    engine.refuse_unsupported_precision(document)
    ops.load(document, progress.say)
    engine.connect(place)
    claimed = run_dir.claim(settings) if place.leads else None
    locks = [claimed[1]] if claimed else []
    if claimed:
        failure.keep_in(claimed[0] / run_dir.LOGS, anew=True)
    directory = engine.share(claimed[0] if claimed else Path())
    failure.keep_in(directory / run_dir.LOGS, anew=False)
    logs.keep_in(directory / run_dir.LOGS, place.rank)
    found = engine.share(found)
    if place.leads:
        run_dir.describe(directory, settings, config)
    metrics = Metrics(directory / run_dir.METRICS if place.leads else None)

    training, length = settings.training, settings.data.sequence_length
    tokens, held_out = as_tokens(text.train), as_tokens(text.held_out)
    meter = memory.Meter()
    if found is not None and universal.needed(found.manifest, place.world_size):
        document = universal.asked_for(document)
    random_state.seed(settings.training.seed)
    model, expected = _build(settings, config, place, document, progress)
    per_epoch = settings.scheduler is not None and settings.scheduler.interval == "epoch"
    trained = Engine(model, document, optimizer=optimizer, scheduler=None if per_epoch else schedule)
    stepped = schedule(trained.optimizer) if schedule and per_epoch else None
    start, state = _start(settings, config, place, trained, found, directory, progress)
    metrics.rewind(start.step)
    if place.leads and found is not None and found.directory.parent == directory / FOLDER:
        Shelf(directory / FOLDER).make_current(found.directory.name)
    progress.say(f"text: {text.source}; {len(text.train):,} bytes to train on, {len(text.held_out):,} held out")

    order = TrainingOrder(tokens, length, training.seed)
    shelf = Shelf(directory / FOLDER)
    fit = Fit(settings, trained, order, held_out, place, shelf, metrics, progress, start, stepped)
    saved, loss = fit.run(state)
    bigram = bigram_loss(tokens, held_out)
    # Their tensors are the data's, and not in the account.
    del fit, order
    sizes = meter.beside(expected)
    progress.say(f"memory of rank 0: {memory.said(sizes)}")
    progress.say(f"held-out loss {loss:.2f} nats per byte (a bigram model: {bigram:.2f})")
    if place.leads:
        summary = {
            "step": training.steps,
            "held_out_loss": loss,
            "bigram_loss": bigram,
            "checkpoint": saved.relative_to(directory).as_posix(),
            "memory": sizes,
        }
        atomic.write_text(directory / run_dir.SUMMARY, json.dumps(summary, indent=2) + "\n")
    progress.say(f"everything is in {directory}; the checkpoint is {saved.relative_to(directory)}")
    locks.clear()
    return Summary(directory, saved, loss, bigram)


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
) -> tuple[GPT, Forecast]:
    """The model, and what the run was said to need before it was built."""
    model = describe(settings.model)
    processes = "1 process" if place.world_size == 1 else f"{place.world_size} processes"
    progress.say(
        f"model: {model.count / 1e6:.2f} million parameters, ZeRO stage {stage(config)}, "
        f"{processes} on {engine.accelerator()}"
    )
    said = forecast(settings, config, model, place, memory.free(config))
    progress.say(f"zero.Init: {'yes' if said.zero_init else 'no'} ({said.why})")
    progress.say(f"memory: {said.summary}")
    said.refuse_shortage()
    with engine.zero_init(document, enabled=said.zero_init):
        return GPT(settings.model), said
