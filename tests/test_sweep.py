"""Several runs by one command, and a run again from its own directory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.again import read_run
from runner.compose import expand, from_overrides
from runner.errors import UsageError
from tests.test_runner_trains import environment, only_run, start, training_losses

SMALL = ["model=tiny", "data.sequence_length=32", "scheduler=constant", "training.log_every=1", "training.steps=3"]


def sweep_json(directory: Path) -> list[dict[str, Any]]:
    return json.loads((directory / "sweep.json").read_text())["runs"]


def test_values_with_commas_and_ranges_are_combined() -> None:
    given = ["+preset=[zero2,fp16]", "optimizer.params.lr=0.001,0.0001", "training.seed=range(2)", "~scheduler"]
    assert [words[1:3] for words in expand(given)] == [
        ("optimizer.params.lr=0.001", "training.seed=0"),
        ("optimizer.params.lr=0.001", "training.seed=1"),
        ("optimizer.params.lr=0.0001", "training.seed=0"),
        ("optimizer.params.lr=0.0001", "training.seed=1"),
    ]
    assert {(words[0], words[3]) for words in expand(given)} == {("+preset=[zero2,fp16]", "~scheduler")}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["+preset=zero2", "optimizer.params.lr=0.001,fast"], 2, "in the run with optimizer.params.lr=fast"),
        (["+preset=zero2", "training.steps=1,0"], 2, "in the run with training.steps=0"),
        (["+preset=zero2", "training.steps=interval(1,2)"], 2, "an interval has no end of values"),
        (["+preset=zero2,zero9"], 2, "Could not find 'preset/zero9'"),
        (["+preset=zero2", "training.steps"], 2, "the override training.steps"),
        (["+preset=zero2", "run_dir=a,b"], 2, "a sweep has one directory"),
        (["--help", "+preset=zero2"], 2, "--multirun and --help"),
        (["+preset=zero2", "data.path=here,nowhere"], 1, "data.path: no such file"),
        (["nowhere", "training.steps=1,2"], 2, "nowhere is neither"),
    ],
)
def test_a_sweep_with_one_wrong_run_starts_none(tmp_path: Path, words: list[str], status: int, said: str) -> None:
    (tmp_path / "here").write_bytes(b"some text " * 400)
    done = start(tmp_path, "runner", "--multirun", *words)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]


def test_a_sweep_that_only_says_what_would_start_writes_nothing(tmp_path: Path) -> None:
    asked = ["launch=deepspeed", "launch.num_gpus=1", "launch.dry_run=true", "training.seed=1,2"]
    done = start(tmp_path, "runner", "-m", "+preset=zero2", *asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("-m deepspeed.launcher.runner") == 2
    assert not list(tmp_path.iterdir())


def test_a_sweep_runs_each_combination_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    swept = ["runner", "--multirun", "+preset=zero2", *SMALL, "optimizer.params.lr=0.001,1e-06", "run_dir=a b"]
    command = [sys.executable, "-u", "-m", *swept]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("run 1 of"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "not completed" in rest
    directory = tmp_path / "a b"
    first = (directory / "0" / "metrics.jsonl").read_text()

    done = start(tmp_path, *swept, "resume=auto")
    assert done.returncode == 0, done.stderr
    assert "\nrun 0 of" not in done.stdout
    assert (directory / "0" / "metrics.jsonl").read_text() == first
    runs = sweep_json(directory)
    assert [run["varied"] for run in runs] == ["optimizer.params.lr=0.001", "optimizer.params.lr=1e-06"]
    assert runs[0]["held_out_loss"] < runs[1]["held_out_loss"]
    assert "optimizer.params.lr=0.001  <- best" in done.stdout
    other = start(tmp_path, *swept[:-2], "optimizer.params.lr=1,2", "run_dir=a b", "resume=auto")
    assert other.returncode == 2
    assert "is another one" in other.stderr


def test_a_run_again_from_its_directory_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    done = start(tmp_path, "runner", "+preset=zero2", *SMALL, "optimizer=adam", "run_dir=once")
    assert done.returncode == 0, done.stderr
    again = start(tmp_path, "runner", "once")
    assert again.returncode == 0, again.stderr
    assert training_losses(only_run(tmp_path)) == training_losses(tmp_path / "once")
    assert only_run(tmp_path).name.endswith("_zero2")

    both = start(tmp_path, "runner", "-m", "once", "training.seed=0,1", "run_dir=both")
    assert both.returncode == 0, both.stderr
    assert training_losses(tmp_path / "both" / "0") == training_losses(tmp_path / "once")
    assert training_losses(tmp_path / "both" / "1") != training_losses(tmp_path / "once")


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    import yaml

    settings = from_overrides(["+preset=zero2", "optimizer=lion", "training.steps=5"])
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json", exclude={"overrides"})))
    return tmp_path


def test_a_run_again_takes_overrides(old_run: Path) -> None:
    words = ["training.steps=7", "run_dir='my runs'", "+data.path=x", "launch=deepspeed", "scheduler=null"]
    settings = read_run(old_run, words)
    assert (settings.optimizer.type, settings.training.steps, settings.run_dir) == ("Lion", 7, Path("my runs"))
    assert settings.launch is not None
    assert settings.scheduler is None


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("optimizer=adam", "chooses from a group"),
        ("+preset=zero3", r"ds_config\.KEY=VALUE"),
        ("training.stepz=7", r"did you mean training\.steps"),
        ("training.steps=0", "from override: training.steps=0"),
        ("training.steps=1,2", "--multirun"),
        ("training.steps", "the override training.steps"),
        ("training.steps.more=1", "training.steps is not a block"),
        ("nothing=1", "there is no setting nothing"),
    ],
)
def test_a_wrong_override_of_a_run_again_is_refused(old_run: Path, word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_run(old_run, [word])


@pytest.mark.parametrize("content", [None, "", "[1]", "a: [", "\x00", "model: 3"])
def test_what_is_no_run_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "settings.yaml").write_text(content)
    done = start(tmp_path, "runner", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_killed_sweep_leaves_no_run_behind(tmp_path: Path) -> None:
    swept = ["runner", "--multirun", "+preset=zero2", *SMALL, "training.seed=0,1", "training.steps=100000"]
    command = [sys.executable, "-u", "-m", *swept]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step"):
                break
        process.kill()
        # The run holds the pipe as long as it lives.
        process.stdout.read()
    assert "what started this run was killed" in next(tmp_path.rglob("failure.txt")).read_text()


def test_the_ranks_of_a_run_do_not_sweep(tmp_path: Path) -> None:
    done = start(tmp_path, "runner", "--multirun", "+preset=zero2,zero1", RANK="0")
    assert done.returncode == 2
    assert "--multirun starts runs" in done.stderr
