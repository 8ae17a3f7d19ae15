"""`--multirun`: a run for each combination of values, one after another, each in processes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

from dsconf import atomic
from runner import again, ancestry, run_dir, text, train
from runner.errors import CannotStart, UsageError
from runner.settings import DataSettings, Settings
from runner.stop import SIGNALS, said

#: What the sweep has come to so far.
FILE = "sweep.json"


class _Job(NamedTuple):
    """`varied`: those of its words that are not the same in every job."""

    words: tuple[str, ...]
    varied: str
    settings: Settings


def sweep(words: Sequence[str]) -> int:
    """Check all runs, then run them. Returns 0 if all were completed, 1 if not, 128 plus the number of a signal.

    The run N writes to the directory N in that of the sweep, which is `run_dir`. With `resume=auto` what has been
    completed there is left as it is. Raises UsageError and CannotStart before anything is started.
    """
    if "RANK" in os.environ:
        raise UsageError("error: --multirun starts runs, and this process is a rank of one; see launch=deepspeed")
    jobs = _jobs(words)
    directory = _directory(jobs)
    planned = [_approve(job, directory and directory / str(number)) for number, job in enumerate(jobs)]
    read: list[DataSettings] = []
    for data in (job.settings.data for job in jobs):
        if isinstance(data, DataSettings) and data not in read:
            text.read(data)
            read.append(data)
    if any(planned):
        for number, (job, plan) in enumerate(zip(jobs, planned, strict=True)):
            print(f"{_head(number, jobs, job)}\n{plan}")
        return 0
    first = jobs[0].settings.model_copy(update={"run_dir": directory, "presets": ("sweep",)})
    directory, lock = run_dir.claim(first)
    ancestry.watch_parents()
    told = _run(jobs, directory)
    del lock
    results = [_result(directory / str(number)) for number in range(len(jobs))]
    print("\n".join(_table(jobs, results, directory)))
    if told:
        print(f"stopped by {said(told)}; to go on: the same with resume=auto run_dir={directory}", file=sys.stderr)
        return 128 + told
    return 0 if all(results) else 1


def _jobs(words: Sequence[str]) -> list[_Job]:
    from runner.compose import expand, from_overrides

    options = [word for word in words if word.startswith("-")]
    if options:
        raise UsageError(f"error: --multirun and {options[0]} do not go together")
    source = [word for word in words[:1] if again.is_meant(word)]
    combinations = expand(words[len(source) :])
    fixed = [len(set(column)) == 1 for column in zip(*combinations, strict=True)]
    found: list[_Job] = []
    for given in combinations:
        varied = " ".join(word for word, same in zip(given, fixed, strict=True) if not same)
        try:
            settings = again.read_run(Path(source[0]), given) if source else from_overrides(given)
        except UsageError as error:
            raise UsageError(_where(varied, str(error))) from None
        found.append(_Job((*source, *given), varied, settings))
    return found


def _directory(jobs: list[_Job]) -> Path | None:
    places = {job.settings.run_dir for job in jobs}
    if len(places) > 1:
        raise UsageError("error: run_dir: a sweep has one directory, and makes one in it for each run")
    directory = places.pop()
    if directory is not None and not (jobs[0].settings.resume == "auto" and (directory / FILE).is_file()):
        run_dir.refuse_used(directory)
    if directory is not None:
        _refuse_other(directory, jobs)
    return directory


def _approve(job: _Job, directory: Path | None) -> str:
    """What would be started, if only that was asked for; else nothing. Raises UsageError and CannotStart."""
    settings = job.settings.model_copy(update={"run_dir": directory})
    try:
        if settings.launch is not None:
            from runner.launch.plan import plan

            planned = plan(settings)
            return planned.describe(settings) if settings.launch.dry_run else ""
        train.choose_checkpoint(settings, train.approve(settings, 1))
    except UsageError as error:
        raise UsageError(_where(job.varied, str(error))) from None
    except CannotStart as error:
        raise CannotStart(_where(job.varied, str(error))) from None
    return ""


def _where(varied: str, error: str) -> str:
    return f"{error}\n  in the run with {varied}" if varied else error


def _refuse_other(directory: Path, jobs: list[_Job]) -> None:
    """Raise UsageError if the sweep that is in the directory already is not this one."""
    before = _load(directory / FILE).get("runs")
    if before is not None and [run.get("varied") for run in before] != [job.varied for job in jobs]:
        raise UsageError(f"error: resume=auto: the sweep in {directory} is another one; choose another run_dir")


def _run(jobs: list[_Job], directory: Path) -> int | None:
    """Run one after another. Returns the signal that ended the sweep, if any."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        for number, job in enumerate(jobs):
            _write(jobs, directory)
            place = directory / str(number)
            if not received and not _result(place):
                print(f"\n{_head(number, jobs, job)}", flush=True)
                _wait(subprocess.Popen(_command(job, place), start_new_session=True), received)
        _write(jobs, directory)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return received[0] if received else None


def _command(job: _Job, place: Path) -> list[str]:
    words = [word for word in job.words if not word.startswith("run_dir=")]
    quoted = str(place).replace("\\", "\\\\").replace("'", "\\'")
    return [sys.executable, "-m", "runner", *words, f"run_dir='{quoted}'"]


def _wait(process: subprocess.Popen[bytes], received: list[int]) -> None:
    """Wait for a run to end, and hand on to it what is received."""
    told = 0
    while process.poll() is None:
        for number in received[told:]:
            told += 1
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)


def _head(number: int, jobs: list[_Job], job: _Job) -> str:
    return f"run {number} of 0 to {len(jobs) - 1}: {job.varied}".rstrip(": ")


def _write(jobs: list[_Job], directory: Path) -> None:
    runs = [
        {"run_dir": str(number), "varied": job.varied, "overrides": job.words, **_result(directory / str(number))}
        for number, job in enumerate(jobs)
    ]
    try:
        atomic.write_text(directory / FILE, json.dumps({"runs": runs}, indent=2) + "\n")
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None


def _result(place: Path) -> dict[str, Any]:
    """What a run came to; empty if it was not completed."""
    summary = _load(place / run_dir.SUMMARY)
    return {name: summary[name] for name in ("held_out_loss", "accuracy") if summary.get(name) is not None}


def _load(file: Path) -> dict[str, Any]:
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _table(jobs: list[_Job], results: list[dict[str, Any]], directory: Path) -> list[str]:
    losses = [result.get("held_out_loss", float("inf")) for result in results]
    best = losses.index(min(losses))
    lines = ["", f"{'run':>4}  {'held-out loss':>13}"]
    for number, (job, loss) in enumerate(zip(jobs, losses, strict=True)):
        shown = f"{loss:.4f}" if results[number] else "not completed"
        lines.append(f"{number:>4}  {shown:>13}  {job.varied}{'  <- best' if results[best] and number == best else ''}")
    return [*lines, f"everything is in {directory}"]
