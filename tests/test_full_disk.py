"""What becomes of a run whose disk is full or cannot be written to, on a small disk of its own."""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runner.metrics import Metrics
from tests.test_runner_trains import environment, training_losses

RUN = ["+preset=zero2", "model=tiny", "data.sequence_length=32", "scheduler=constant", "training.log_every=1"]
#: Other mounts than the rest of the machine, seen by this one command alone.
OWN_MOUNTS = ["unshare", "--map-root-user", "--mount"]

pytestmark = pytest.mark.skipif(
    subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode != 0, reason="no mounts of one's own here"
)


def runner(*overrides: str) -> str:
    return shlex.join([sys.executable, "-m", "runner", *RUN, *overrides])


def on_a_disk_of(size: str, cwd: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands where `disk` is one of that size. Copied to `kept` is what is on it in the end."""
    script = [f"mkdir disk; mount -t tmpfs -o size={size} none disk", *commands, "cp -r disk kept"]
    return subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", "\n".join(script)], cwd=cwd, env=environment(), capture_output=True, text=True
    )


def test_a_disk_that_fills_while_two_ranks_save_leaves_what_the_run_goes_on_from(tmp_path: Path) -> None:
    both = ["launch=deepspeed", "launch.num_gpus=2", "training.steps=4", "checkpoint.every=2"]
    done = on_a_disk_of(
        "1100k",
        tmp_path,
        f"{runner(*both, 'run_dir=disk/run')}; echo status $?",
        "ls disk/run/checkpoints; mount -o remount,size=20m disk",
        f"{runner(*both, 'run_dir=disk/run', 'resume=auto')}; echo status $?",
    )
    assert "status 1\nglobal_step2\nlatest\n" in done.stdout, done.stderr
    assert "the checkpoint global_step4 could not be written" in done.stderr
    assert "No space left on device" in done.stderr
    assert "the last good checkpoint is" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.rstrip().endswith("status 0")
    assert "goes on after step 2" in done.stdout

    never = subprocess.run(
        [*shlex.split(runner(*both, "run_dir=never"))], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert never.returncode == 0, never.stderr
    assert training_losses(tmp_path / "kept" / "run") == training_losses(tmp_path / "never")


def test_what_is_measured_while_the_disk_is_full_is_written_once_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "metrics.jsonl"
    metrics = Metrics(file)
    metrics.write(step=1, loss=5.0)
    before = file.read_text()
    limit, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond: half of the next line still fits.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        metrics.write(step=2, loss=4.0)
        metrics.write(step=3, loss=3.0)
        with pytest.raises(OSError, match=r"metrics\.jsonl"):
            metrics.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    assert file.read_text() == before
    assert capsys.readouterr().err.count("waits in memory") == 1
    metrics.write(step=4, loss=2.0)
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()] == [1, 2, 3, 4]


def test_a_disk_that_is_full_from_the_start_is_named(tmp_path: Path) -> None:
    done = on_a_disk_of(
        "8k", tmp_path, "dd if=/dev/zero of=disk/fill bs=1k count=8", f"{runner('run_dir=disk/run')}; echo status $?"
    )
    assert "status 1" in done.stdout
    assert done.stderr.rstrip().endswith("ds_config.json: No space left on device")
    assert "Traceback" not in done.stderr


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    done = on_a_disk_of("8k", tmp_path, "mount -o remount,ro disk", f"{runner('run_dir=disk/run')}; echo status $?")
    assert "status 1" in done.stdout
    assert done.stderr.rstrip().endswith("error: run_dir: cannot write to disk/run: Read-only file system")
