"""The run itself: build, train, evaluate, save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from dsconf import DeepSpeedConfig
from runner import checkpoint, engine, ops, run_dir, zero_init
from runner.data import TrainingOrder, as_tokens, rank_position
from runner.ds_config import stage
from runner.engine import Engine
from runner.environment import Place
from runner.evaluate import bigram_loss, held_out_loss
from runner.metrics import Metrics
from runner.model.gpt import GPT, count_parameters
from runner.progress import Clock, Progress, duration
from runner.settings import Settings
from runner.text import Text


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; losses in nats per byte of held-out text."""

    run_dir: Path
    checkpoint: Path
    held_out_loss: float
    bigram_loss: float


def run(settings: Settings, config: DeepSpeedConfig, text: Text, place: Place) -> Summary:
    """Train on `text` under `config`, which must be for `place.world_size` processes."""
    progress = Progress(leads=place.leads)
    document = config.to_dict()
    engine.refuse_unsupported_precision(document)
    ops.load(document, progress.say)
    engine.connect(place)
    directory = Path(engine.share(str(run_dir.create(settings, config)) if place.leads else ""))
    metrics = Metrics(directory / run_dir.METRICS if place.leads else None)

    torch.manual_seed(settings.training.seed)  # pyright: ignore[reportUnknownMemberType]
    model = _build(settings, config, place, directory / run_dir.DS_CONFIG, progress)
    trained = Engine(model, directory / run_dir.DS_CONFIG)
    progress.say(f"text: {text.source}; {len(text.train):,} bytes to train on, {len(text.held_out):,} held out")

    held_out = as_tokens(text.held_out)
    bigram = bigram_loss(as_tokens(text.train), held_out)
    loss = _fit(settings, trained, as_tokens(text.train), held_out, place, metrics, progress)
    metrics.write(step=settings.training.steps, held_out_loss=loss, bigram_loss=bigram)
    progress.say(f"held-out loss {loss:.2f} nats per byte (a bigram model: {bigram:.2f})")

    state = {"step": settings.training.steps, "seed": settings.training.seed}
    saved = checkpoint.save(trained, directory / run_dir.CHECKPOINTS, state)
    progress.say(f"everything is in {directory}; the checkpoint is {saved.relative_to(directory)}")
    return Summary(directory, saved, loss, bigram)


def _build(settings: Settings, config: DeepSpeedConfig, place: Place, ds_config: Path, progress: Progress) -> GPT:
    zero = config.zero_optimization
    parameters = count_parameters(settings.model)
    decision = zero_init.decide(
        settings.model.zero_init,
        stage=stage(config),
        offloads_parameters=getattr(zero, "offload_param", None) is not None,
        parameter_bytes=4 * parameters,
        ranks_per_host=place.ranks_per_host,
        free_bytes=zero_init.free_host_memory(),
    )
    processes = "1 process" if place.world_size == 1 else f"{place.world_size} processes"
    progress.say(
        f"model: {parameters / 1e6:.2f} million parameters, ZeRO stage {stage(config)}, "
        f"{processes} on {engine.accelerator()}"
    )
    progress.say(f"zero.Init: {'yes' if decision.use else 'no'} ({decision.why})")
    with engine.zero_init(ds_config, enabled=decision.use):
        return GPT(settings.model)


def _fit(
    settings: Settings,
    trained: Engine,
    train: torch.Tensor,
    held_out: torch.Tensor,
    place: Place,
    metrics: Metrics,
    progress: Progress,
) -> float:
    """All steps; the loss on `held_out` after the last."""
    training, length = settings.training, settings.data.sequence_length
    order = TrainingOrder(train, length, training.seed)
    size, accumulation = trained.micro_batch_size, trained.accumulation_steps
    clock = Clock()
    for step in range(1, training.steps + 1):
        last, lr = step == training.steps, trained.lr
        clock.start()
        micro_steps = range((step - 1) * accumulation, step * accumulation)
        positions = (rank_position(micro, place.rank, place.world_size, size) for micro in micro_steps)
        own_loss = trained.train(order.batch(position, size) for position in positions)
        clock.stop(accumulation * place.world_size * size * length)
        if last or step % training.log_every == 0:
            loss = trained.sum_over_ranks(own_loss)[0] / place.world_size
            rate = clock.rate()
            metrics.write(step=step, loss=loss, lr=lr, tokens_per_second=rate)
            left = duration(clock.seconds / step * (training.steps - step))
            progress.step(
                f"step {step}/{training.steps}  loss {loss:.3f}  lr {lr:.2e}  {rate:,.0f} tokens/s  {left} left"
            )
        if not last and training.eval_every and step % training.eval_every == 0:
            loss = held_out_loss(trained, held_out, length, place)
            metrics.write(step=step, held_out_loss=loss)
            progress.say(f"step {step}/{training.steps}  held-out loss {loss:.3f}")
    return held_out_loss(trained, held_out, length, place)
