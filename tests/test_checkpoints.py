"""Which checkpoint counts, which one a run goes on from, and when a run must not go on."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from runner.checkpoint import changes, manifest, shelf
from runner.checkpoint.manifest import Damaged, Manifest
from runner.checkpoint.shelf import FOLDER, Shelf
from runner.errors import BrokenOff, CannotStart, UsageError
from runner.guard import Guard
from runner.lock import Lock

SHARD = "mp_rank_00_model_states.pt"


def finish(run: Path, step: int, *, held_out_loss: float | None = None) -> Path:
    """A finished checkpoint with one shard."""
    own = Shelf(run / FOLDER)
    partial = own.partial(f"global_step{step}")
    partial.mkdir(parents=True)
    (partial / SHARD).write_bytes(bytes(range(100)))
    content = Manifest(
        step=step,
        epoch=0,
        samples=step,
        tokens=step,
        held_out_loss=held_out_loss,
        world_size=2,
        stage=2,
        versions={},
        settings={},
        files={name: manifest.measure(partial / name) for name in manifest.payload(partial)},
    )
    return own.finish(f"global_step{step}", content)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        finish(tmp_path, step)
    return tmp_path


@pytest.mark.parametrize("damage", ["truncated", "missing", "changed"])
def test_a_damaged_shard_is_named_and_auto_takes_the_newest_sound_checkpoint(run: Path, damage: str) -> None:
    shard = run / FOLDER / "global_step30" / SHARD
    if damage == "truncated":
        shard.write_bytes(shard.read_bytes()[:50])
    elif damage == "missing":
        shard.unlink()
    else:
        shard.write_bytes(bytes(100))
    found = shelf.find("auto", run)
    assert found is not None
    assert found.manifest.step == 20
    assert str(shard) in found.passed_over[0]
    with pytest.raises(CannotStart, match=r"mp_rank_00_model_states.pt .*; there are global_step20, global_step10"):
        shelf.find("latest", run)


def test_shards_that_were_never_finished_are_no_checkpoint(run: Path) -> None:
    for step in (40, 50):
        partial = Shelf(run / FOLDER).partial(f"global_step{step}")
        partial.mkdir()
        (partial / SHARD).write_bytes(b"half")
    (run / FOLDER / "global_step50.partial").rename(run / FOLDER / "global_step50")
    found = shelf.find("auto", run)
    assert found is not None
    assert found.manifest.step == 30
    with pytest.raises(CannotStart, match="never finished"):
        shelf.find("global_step50", run)


@pytest.mark.parametrize("resume", ["latest", "global_step10"])
def test_no_checkpoint_where_one_was_asked_for_is_an_error(tmp_path: Path, resume: str) -> None:
    with pytest.raises(CannotStart, match=resume):
        shelf.find(resume, tmp_path)
    with pytest.raises(UsageError, match="run_dir=DIRECTORY"):
        shelf.find(resume, None)
    assert shelf.find("auto", tmp_path) is None


def test_auto_does_not_start_afresh_over_checkpoints_that_are_all_damaged(run: Path) -> None:
    for shard in run.rglob(SHARD):
        shard.unlink()
    with pytest.raises(CannotStart, match=r"no checkpoint .* is sound"):
        shelf.find("auto", run)


def test_a_checkpoint_is_found_by_tag_by_its_own_path_and_by_the_path_of_its_run(run: Path) -> None:
    for resume, step in (("global_step10", 10), (str(run / FOLDER / "global_step20"), 20), (str(run), 30)):
        found = shelf.find(resume, run)
        assert found is not None
        assert found.manifest.step == step


def test_the_newest_the_best_and_the_current_checkpoint_stay(tmp_path: Path) -> None:
    for step, loss in ((10, 2.0), (20, 1.0), (30, 3.0), (40, None), (50, 4.0)):
        finish(tmp_path, step, held_out_loss=loss)
    own = Shelf(tmp_path / FOLDER)
    own.make_current("global_step10")
    own.discard(keep_last=2, keep_best=1)
    assert own.tags() == ["global_step50", "global_step40", "global_step20", "global_step10"]
    assert sorted(path.name for path in own.directory.iterdir()) == sorted([*own.tags(), "latest"])
    own.discard(keep_last=0, keep_best=0)
    assert len(own.tags()) == 4


def test_a_finished_checkpoint_takes_the_place_of_one_of_the_same_step(run: Path) -> None:
    (run / FOLDER / "global_step30" / SHARD).unlink()
    manifest.verify(finish(run, 30))
    assert Shelf(run / FOLDER).latest == "global_step30"
    with pytest.raises(Damaged):
        manifest.verify(run / FOLDER / "global_step31")


def test_changed_settings_are_named_with_why_they_cannot_be(run: Path) -> None:
    before = {"model": {"width": 32}, "training": {"steps": 5, "log_every": 1}, "run_dir": "a"}
    now = {"model": {"width": 64}, "training": {"steps": 9, "log_every": 2}, "run_dir": "b"}
    found = changes.compare(before, now)
    assert [(change.name, change.why_not is None) for change in found] == [
        ("model.width", False),
        ("training.steps", True),
    ]
    checkpoint = shelf.find("latest", run)
    assert checkpoint is not None
    with pytest.raises(UsageError, match=r"model.width: None -> 64"):
        changes.refuse(checkpoint, now)


@pytest.mark.parametrize(("saved", "stage", "fits"), [(1, 2, True), (2, 1, True), (0, 1, False), (2, 3, False)])
def test_only_stages_1_and_2_go_on_from_each_other(saved: int, stage: int, fits: bool) -> None:
    before, now = ({"ds_config": {"zero_optimization": {"stage": each}}} for each in (saved, stage))
    (change,) = changes.compare(before, now)
    assert (change.why_not is None) is fits


def test_a_second_run_in_the_same_directory_is_told_who_has_it(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from runner.lock import Lock; Lock(Path({str(tmp_path)!r}), 'run_dir')"
    lock = Lock(tmp_path, "run_dir")
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is in use by process" in other.stderr
    del lock
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_loss_that_is_no_number_or_explodes_breaks_the_run_off() -> None:
    guard = Guard(max_loss_ratio=10, max_skipped=2, fp16=False)
    guard.loss(1, 5.0)
    guard.loss(2, 49.0)
    with pytest.raises(BrokenOff, match="step 3: the loss explodes"):
        guard.loss(3, 51.0)
    for value in (math.nan, math.inf):
        with pytest.raises(BrokenOff, match=r"step 4: the loss is .*still those of step 3"):
            guard.loss(4, value)
    with pytest.raises(BrokenOff, match="gradient"):
        guard.update(5, math.nan, 0)


def test_fp16_may_skip_some_steps_but_not_too_many_in_a_row() -> None:
    guard = Guard(max_loss_ratio=10, max_skipped=2, fp16=True)
    guard.loss(1, math.inf)
    guard.update(1, math.inf, 1)
    guard.update(2, 1.0, 1)
    guard.update(3, None, 2)
    with pytest.raises(BrokenOff, match="2 steps in a row"):
        guard.update(4, None, 3)
