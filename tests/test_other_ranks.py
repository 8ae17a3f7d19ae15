"""Checkpoints of two ranks for one, and of one for two, through DeepSpeed's universal layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.many_runs import train_all
from tests.test_runner_trains import training_losses

STAGES = (1, 2, 3)
#: Of 16 bytes each, 40 sequences to train on: an epoch is 10 steps.
TEXT = bytes(range(32, 122)) * 8


def run(stage: int, ranks: int, name: str, *, goes_on_from: str = "") -> dict[str, Any]:
    """Four steps, of which the second is saved; the same samples in each, whatever the number of ranks."""
    return {
        "run_dir": f"{name}_{stage}",
        "resume": f"{goes_on_from}_{stage}/checkpoints/global_step2" if goes_on_from else "never",
        "data": {"sequence_length": 16, "path": "text"},
        "training": {"steps": 4, "log_every": 1},
        "checkpoint": {"every": 2, "keep_last": 0},
        "ds_config": {
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 2 // ranks,
            "zero_optimization": {"stage": stage},
        },
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ranks")
    (directory / "text").write_bytes(TEXT)
    said = train_all(directory, [run(stage, 1, "one") for stage in STAGES])
    two = [run(stage, 2, "two") for stage in STAGES]
    said += train_all(directory, [*two, *(run(stage, 2, "two_of_one", goes_on_from="one") for stage in STAGES)], 2)
    said += train_all(directory, [run(stage, 1, "one_of_two", goes_on_from="two") for stage in STAGES])
    assert not any(said), said
    return directory


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["two_of_one", "one_of_two"])
def test_a_run_goes_on_with_another_number_of_ranks(trained: Path, name: str, stage: int) -> None:
    whole = training_losses(trained / f"one_{stage}")
    assert training_losses(trained / f"two_{stage}") == pytest.approx(whole, rel=1e-5)
    # The last of them follows an update from Adam's moments in the checkpoint.
    assert training_losses(trained / f"{name}_{stage}") == pytest.approx(whole[2:], rel=1e-5)
