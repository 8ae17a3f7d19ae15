"""Taking a file to another DeepSpeed release."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconf.cli import main
from dsconf.source import read_text
from dsconf.upgrade import upgrade

_OLD = """\
{
    // tuned by hand
    "train_micro_batch_size_per_gpu": 2,
    "amp": {"enabled": false},   // never worked
    "bf16": {
        "enabled": true,
        "loss_scale": 0
    },
    "zero_optimization": {
        "stage": 2,
        "cpu_offload": true,
        "reduce_bucket_size": 15099494.4
    }
}
"""

_NEW = """\
{
    // tuned by hand
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {
        "enabled": true,
        "check_grad_overflow": false
    },
    "zero_optimization": {
        "stage": 2,
        "offload_optimizer": {
            "device": "cpu",
            "pin_memory": false
        },
        "reduce_bucket_size": 15099494
    },
    "gradient_clipping": 0.0,
    "steps_per_print": 10
}
"""


def test_an_old_file_trains_on_as_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ds_config.json"
    file.write_text(_OLD)
    assert main(["upgrade", "--from", "0.14.5", "--to", "0.19.8", "--diff", str(file)]) == 0
    assert file.read_text() == _OLD
    assert main(["upgrade", "--from", "0.14.5", "--to", "0.19.8", str(file)]) == 0
    assert file.read_text() == _NEW
    shown = capsys.readouterr().out
    assert "`gradient_clipping` is 1.0 by default since 0.19.3, and was 0.0" in shown
    assert main(["upgrade", "--from", "0.19.8", str(file)]) == 0
    assert file.read_text() == _NEW


@pytest.mark.parametrize(
    ("source", "target", "pinned"),
    [
        ("0.19.2", "0.19.3", {"gradient_clipping"}),
        ("0.15.1", "0.15.2", {"steps_per_print"}),
        ("0.15.2", "0.19.2", set[str]()),
    ],
)
def test_only_defaults_that_changed_on_the_way_are_written_down(source: str, target: str, pinned: set[str]) -> None:
    outcome = upgrade(read_text('{"train_micro_batch_size_per_gpu": 2}', "f"), target, source)
    assert {str(change.path[0]) for change in outcome.changes} == pinned


def test_a_feature_without_successor_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ds_config.json"
    text = '{"train_micro_batch_size_per_gpu": 2, "amp": {"enabled": true}}'
    file.write_text(text)
    assert main(["upgrade", "--from", "0.14.5", str(file)]) == 1
    assert file.read_text() == text
    assert "removed in 0.19.8" in capsys.readouterr().err
    assert main(["upgrade", "--from", "0.14.5", "--to", "0.19.7", str(file)]) == 0


def test_a_key_that_an_older_release_lacks_stands_in_the_way_of_going_back() -> None:
    text = '{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true, "bf16_optimizer_states": true}}'
    assert not upgrade(read_text(text, "f"), "0.17.6", "0.19.8").sound
