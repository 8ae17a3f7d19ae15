"""The runner as people start it: real training on real text, in one process and in two."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from runner import export
from runner.checkpoint import manifest
from runner.data import as_tokens, consecutive
from runner.settings import DataSettings
from runner.text import read

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["model=tiny", "data.sequence_length=64", "training.log_every=1"]


def environment(**more: str) -> dict[str, str]:
    launcher = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_SIZE", "LOCAL_WORLD_SIZE")
    kept = {name: value for name, value in os.environ.items() if name not in launcher}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def start(cwd: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env=environment(**more), capture_output=True, text=True
    )


def only_run(cwd: Path) -> Path:
    (directory,) = (cwd / "runs").iterdir()
    return directory


def metrics(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def training_losses(directory: Path) -> list[float]:
    return [line["loss"] for line in metrics(directory) if "loss" in line]


def plain_loss(directory: Path, text: Path) -> float:
    """Of an exported model on the held-out part, by torch alone."""
    split = read(DataSettings(path=str(text), sequence_length=64))
    with torch.no_grad():
        return float(export.load(directory)(*consecutive(as_tokens(split.held_out), 64)))


@pytest.fixture
def own_text(tmp_path: Path) -> Path:
    # Its held-out part is 18 sequences, so that of two ranks one is without a share in the last round.
    path = tmp_path / "own.txt"
    path.write_bytes(bytes(range(32, 122)) * 131)
    return path


def test_one_process_trains_under_zero3_offload(tmp_path: Path) -> None:
    run = ["+preset=zero3_offload", *SMALL, "training.steps=30", "model.zero_init=always"]
    done = start(tmp_path, "runner", *run, "training.eval_every=20")
    assert done.returncode == 0, done.stderr
    directory = only_run(tmp_path)
    assert directory.name.endswith("_zero3_offload")
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]

    losses = training_losses(directory)
    # All initial weights arrived in the shards, and the gradients in the weights.
    assert losses[0] == pytest.approx(math.log(256), abs=1e-3)
    assert losses[-1] < losses[0] - 1
    assert [line["step"] for line in metrics(directory) if "held_out_loss" in line] == [20, 30]
    summary = json.loads((directory / "summary.json").read_text())
    said = f"held-out loss {summary['held_out_loss']:.2f} nats per byte (a bigram model: {summary['bigram_loss']:.2f})"
    assert said in done.stdout

    assert json.loads((directory / "ds_config.json").read_text())["zero_optimization"]["stage"] == 3
    assert (directory / "overrides.txt").read_text().splitlines()[0] == "+preset=zero3_offload"
    assert "steps: 30" in (directory / "settings.yaml").read_text()
    assert (directory / "checkpoints" / "latest").read_text() == "global_step30"
    assert any((directory / "checkpoints" / "global_step30").glob("*optim_states.pt"))
    assert "zero.Init: yes" in done.stdout
    assert str(directory) in done.stdout.splitlines()[-1]


def test_two_ranks_train_as_one_that_goes_on_alone_from_their_checkpoint(tmp_path: Path, own_text: Path) -> None:
    run = ["runner", "+preset=zero2", *SMALL, "training.steps=4", "checkpoint.every=2", f"data.path={own_text}"]
    alone = start(tmp_path, *run, "run_dir=alone", "ds_config.gradient_accumulation_steps=2")
    assert alone.returncode == 0, alone.stderr

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    launcher = ["torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}", "-m"]
    # With LOCAL_SIZE, which the deepspeed launcher sets, DeepSpeed makes its shared buffers.
    both = start(tmp_path, *launcher, *run, LOCAL_SIZE="2")
    assert both.returncode == 0, both.stderr
    assert not list(Path("/dev/shm").glob(f"deepspeed_*_{port}_*"))

    directory = only_run(tmp_path)
    assert training_losses(directory) == pytest.approx(training_losses(tmp_path / "alone"), rel=2e-3)
    assert metrics(directory)[-1]["held_out_loss"] == pytest.approx(
        metrics(tmp_path / "alone")[-1]["held_out_loss"], rel=2e-3
    )
    shards = (directory / "checkpoints" / "global_step4").glob("*zero_pp_rank_*_optim_states.pt")
    assert len(list(shards)) == 2
    assert both.stdout.count("everything is in") == 1

    halfway = directory / "checkpoints" / "global_step2"
    on = start(tmp_path, *run, "run_dir=on", f"resume={halfway}", "ds_config.gradient_accumulation_steps=2")
    assert on.returncode == 0, on.stderr
    assert f"goes on after step 2, from {halfway}, which 2 ranks saved" in on.stdout
    assert training_losses(tmp_path / "on") == pytest.approx(training_losses(tmp_path / "alone")[2:], rel=2e-3)
    assert not list((tmp_path / "on").rglob("*universal*"))


def test_a_run_killed_at_some_moment_goes_on_as_if_nothing_had_happened(tmp_path: Path, own_text: Path) -> None:
    run = [
        "runner",
        "+preset=zero3_offload",
        *SMALL,
        "training.steps=12",
        "checkpoint.every=2",
        "checkpoint.keep_last=0",
    ]
    run += [f"data.path={own_text}", "ds_config.gradient_accumulation_steps=2"]
    whole = start(tmp_path, *run, "run_dir=whole")
    assert whole.returncode == 0, whole.stderr
    with subprocess.Popen(
        [sys.executable, "-m", *run, "run_dir=killed"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        # Step 6 is saved right after it is told of, so this often hits a checkpoint half written.
        for line in process.stdout:
            if line.startswith("step 6/"):
                break
        process.kill()
    newest = max((tmp_path / "killed" / "checkpoints").glob("global_step[0-9]"))
    for shard in newest.glob("*optim_states.pt"):
        shard.write_bytes(shard.read_bytes()[:1000])
    resumed = start(tmp_path, *run, "run_dir=killed", "resume=auto")
    assert resumed.returncode == 0, resumed.stderr
    assert f"{newest}" in resumed.stdout
    assert "goes on after step" in resumed.stdout
    assert training_losses(tmp_path / "killed") == training_losses(tmp_path / "whole")
    last = ("held_out_loss", "checkpoint", "step")
    ends = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "killed")]
    assert [ends[0][name] for name in last] == [ends[1][name] for name in last]

    exported = start(tmp_path, "runner.export", "whole", "-o", "plain", "--dtype", "bf16", "--shard-size", "50000")
    assert exported.returncode == 0, exported.stderr
    assert len(list((tmp_path / "plain").glob("model-*.safetensors"))) > 1
    assert plain_loss(tmp_path / "plain", own_text) == pytest.approx(ends[0]["held_out_loss"], rel=1e-5)

    changed = start(tmp_path, *run, "run_dir=killed", "resume=latest", "model.width=64")
    assert changed.returncode == 2
    assert "model.width: 32 -> 64" in changed.stderr


def test_a_checkpoint_that_cannot_be_written_breaks_the_run_off_and_leaves_the_last_one(
    tmp_path: Path, own_text: Path
) -> None:
    # What the system does when a disk is full, but without one: no file may grow beyond 100 kB.
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "runner", "+preset=zero2", *SMALL, "training.steps=4", f"data.path={own_text}"]
    done = subprocess.run(
        [*command, "run_dir=full"], cwd=tmp_path, env=environment(), capture_output=True, text=True, preexec_fn=limit
    )
    assert done.returncode == 1
    assert "the checkpoint global_step4 could not be written" in done.stderr
    assert "there is no earlier checkpoint" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "full" / "checkpoints").glob("global_step*"))


def test_ctrl_c_ends_with_a_checkpoint_and_status_130(tmp_path: Path, own_text: Path) -> None:
    command = [sys.executable, "-m", "runner", "+preset=zero2", *SMALL, "training.steps=100000"]
    with subprocess.Popen(
        [*command, f"data.path={own_text}"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step "):
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("stopped by Ctrl-C after step ")
    (checkpoint,) = (only_run(tmp_path) / "checkpoints").glob("global_step*")
    assert str(checkpoint) in errors
    manifest.verify(checkpoint)
    assert "Traceback" not in errors
