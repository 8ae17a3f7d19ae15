"""All optimizer steps of a run, with what happens between them: measure, evaluate, save, stop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dsconf.memory import show_bytes
from runner import engine as processes
from runner import lifeline, run_dir
from runner.checkpoint import random_state
from runner.checkpoint.manifest import Manifest
from runner.checkpoint.save import save
from runner.checkpoint.shelf import Shelf
from runner.engine import Engine
from runner.environment import Place
from runner.errors import BrokenOff, Interrupted
from runner.evaluate import Judgement, judge
from runner.feed import Feed
from runner.guard import OUT_OF_MEMORY_HELP, Guard, is_out_of_memory, is_timeout, stalled
from runner.metrics import Metrics
from runner.progress import Clock, Progress, duration
from runner.settings import Settings
from runner.source import Source
from runner.stop import SIGNALS, Stop, elected, said


@dataclass(slots=True)
class Fit:
    """`start`: of the run, or what the checkpoint says of it. `schedule`: of torch, to be moved on with each epoch."""

    settings: Settings
    engine: Engine
    feed: Feed
    source: Source
    place: Place
    shelf: Shelf
    metrics: Metrics
    progress: Progress
    start: Manifest
    schedule: Any = None

    def run(self, state: dict[str, Any]) -> tuple[Path, Judgement]:
        """Train to the last step; returns the last checkpoint and how well the model does there.

        `state`: the run's own state in the checkpoint that it goes on from.
        Raises BrokenOff if training goes wrong, and Interrupted after a signal; on all ranks alike.
        """
        training, engine, place = self.settings.training, self.engine, self.place
        size, accumulation = engine.micro_batch_size, engine.accumulation_steps
        batch = size * accumulation * place.world_size
        now = self.start
        guard = Guard(
            max_loss_ratio=training.max_loss_ratio,
            max_skipped=training.max_skipped,
            fp16=engine.fp16,
            first_loss=state.get("first_loss"),
            skipped=engine.skipped_steps,
        )
        clock, stop, saved_at, sums = Clock(), Stop(), time.monotonic(), list[float]()
        saved = self._directory(now.step) if self._current(now.step) else None
        signal: int | None = None
        judged: Judgement | None = None
        if self.schedule is not None and "schedule" in state:
            self.schedule.load_state_dict(state["schedule"])
        try:
            for step in range(now.step + 1, training.steps + 1):
                last, lr = step == training.steps, engine.lr
                clock.start()

                def before_update(own_loss: Tensor, step: int = step, saved_at: float = saved_at) -> None:
                    due = 0 < self.settings.checkpoint.every_minutes * 60 <= time.monotonic() - saved_at
                    lifeline.go_on()
                    sums[:] = engine.sum_over_ranks(own_loss, float(due and place.leads), *stop.votes())
                    guard.loss(step, sums[0] / place.world_size)

                batches = self.feed.batches(now.samples, accumulation)
                lifeline.go_on()
                engine.train(batches, before_update)
                guard.update(step, engine.gradient_norm, engine.skipped_steps)
                epochs = self.feed.epoch(now.samples + batch) - now.epoch
                now = now.model_copy(
                    update={
                        "step": step,
                        "samples": now.samples + batch,
                        "tokens": now.tokens + batch * (self.source.tokens or 0),
                        "epoch": now.epoch + epochs,
                        "held_out_loss": None,
                    }
                )
                clock.stop(batch * (self.source.tokens or 1))
                loss, signal = sums[0] / place.world_size, elected(sums[2 : 2 + len(SIGNALS)])
                if last or signal or step % training.log_every == 0:
                    self._report(now, loss, lr, clock)
                watches = isinstance(cast(object, self.schedule), ReduceLROnPlateau)
                if last or (watches and epochs) or (training.eval_every and step % training.eval_every == 0):
                    judged = self._evaluate(step)
                    now = now.model_copy(update={"held_out_loss": judged.loss})
                for _ in range(epochs if self.schedule else 0):
                    cast(Any, self.schedule).step(*[now.held_out_loss] if watches else [])
                every = self.settings.checkpoint.every
                if last or signal or sums[1] or (every and step % every == 0):
                    saved = self._save(now, guard)
                    saved_at = time.monotonic()
                if signal and not last:
                    break
        except BrokenOff as error:
            raise self._with_last_good(error) from None
        except (RuntimeError, MemoryError) as error:
            if is_timeout(error):
                minutes = self.settings.distributed.timeout_minutes
                raise self._with_last_good(
                    stalled(f"step {now.step + 1}", minutes, self.shelf.directory.parent / run_dir.LOGS)
                ) from None
            if not is_out_of_memory(error):
                raise
            happened = f"step {now.step + 1}: memory ran out: {str(error).splitlines()[0]}"
            raise self._with_last_good(BrokenOff(f"{happened}\n{OUT_OF_MEMORY_HELP}")) from None
        finally:
            stop.release()
        if signal and now.step < training.steps:
            raise Interrupted(
                f"stopped by {said(signal)} after step {now.step}, which is saved "
                f"in {saved}; to go on: resume=auto run_dir={self.shelf.directory.parent}",
                128 + signal,
            )
        if judged is None:
            judged = self._evaluate(now.step)
            now = now.model_copy(update={"held_out_loss": judged.loss})
        if saved is None:
            saved = self._save(now, guard)
        return saved, judged

    def _report(self, now: Manifest, loss: float, lr: float, clock: Clock) -> None:
        engine = self.engine
        rate, norm, scale, memory = clock.rate(), engine.gradient_norm, engine.loss_scale, engine.memory
        unit = "tokens" if self.source.tokens else "samples"
        self.metrics.write(
            step=now.step,
            epoch=now.epoch,
            loss=loss,
            lr=lr,
            gradient_norm=norm,
            loss_scale=scale,
            samples=now.samples,
            tokens=now.tokens or None,
            **{f"{unit}_per_second": rate},
            memory_bytes=memory,
        )
        engine.tell_monitors("Train/loss", loss)
        steps = self.settings.training.steps
        left = duration(clock.seconds / (now.step - self.start.step) * (steps - now.step))
        parts = [f"step {now.step}/{steps}", f"epoch {now.epoch}", f"loss {loss:.3f}", f"lr {lr:.2e}"]
        parts += [f"norm {norm:.2g}"] if norm is not None else []
        parts += [f"scale {scale:g}"] if scale is not None else []
        self.progress.step("  ".join([*parts, f"{rate:,.0f} {unit}/s", show_bytes(memory), f"{left} left"]))

    def _evaluate(self, step: int) -> Judgement:
        judged = judge(self.engine, self.source.held_out, self.place)
        accuracy = {} if judged.accuracy is None else {"accuracy": judged.accuracy}
        self.metrics.write(step=step, held_out_loss=judged.loss, **accuracy)
        self.engine.tell_monitors("Held-out/loss", judged.loss)
        if step < self.settings.training.steps:
            self.progress.say(f"step {step}/{self.settings.training.steps}  {judged}")
        return judged

    def _save(self, now: Manifest, guard: Guard) -> Path:
        state: dict[str, Any] = {"step": now.step, "epoch": now.epoch, "samples": now.samples, "tokens": now.tokens}
        state["first_loss"] = guard.first_loss
        state["random"] = processes.tell_all(random_state.capture())
        if self.schedule is not None:
            state["schedule"] = self.schedule.state_dict()
        saved = save(self.engine, self.shelf, now, state, self.place)
        if self.place.leads:
            kept = self.settings.checkpoint
            try:
                self.shelf.discard(keep_last=kept.keep_last, keep_best=kept.keep_best)
            except OSError as error:
                self.progress.say(f"warning: an older checkpoint stays: {error.filename}: {error.strerror}")
        return saved

    def _directory(self, step: int) -> Path:
        return self.shelf.directory / f"global_step{step}"

    def _current(self, step: int) -> bool:
        return processes.share(self.shelf.latest == self._directory(step).name)

    def _with_last_good(self, error: BrokenOff) -> BrokenOff:
        if "last good checkpoint" in str(error) or self.shelf.latest is None:
            return error
        return BrokenOff(f"{error}\n  the last good checkpoint is {self.shelf.directory / self.shelf.latest}")
