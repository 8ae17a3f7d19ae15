"""The effective configuration, and what differs in effect between two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconf.cli import main
from dsconf.resolve import differences, resolve
from dsconf.rules.rule import Context
from dsconf.source import read_text

_TEXT = """\
{
  "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": {"stage": 2, "cpu_offload": true, "reduce_bucket_size": 5e8},
  "bf16": {"enabled": "auto"}
}
"""


def _settings(text: str = _TEXT, **known: Any) -> dict[str, tuple[Any, str]]:
    settings = resolve(read_text(text, "ds.json"), Context(**known))
    return {".".join(map(str, item.path)): (item.value, item.origin) for item in settings}


def test_every_value_has_its_origin() -> None:
    found = _settings(world_size=4, reader="transformers", training_args={"bf16": True})
    assert found["zero_optimization.stage"] == (2, "ds.json:3:25")
    assert found["zero_optimization.reduce_bucket_size"] == (500000000, "ds.json:3:58")
    assert found["zero_optimization.offload_optimizer.device"][0] == "cpu"
    assert found["bf16.enabled"] == (True, "filled in by Transformers from bf16 and bf16_full_eval")
    assert found["gradient_clipping"] == (1.0, "default of DeepSpeed 0.19.8")
    assert _settings(world_size=4)["train_batch_size"] == (8, "worked out by DeepSpeed on 4 ranks")


def test_defaults_are_those_of_the_release() -> None:
    assert _settings(deepspeed=("0.14.5",))["gradient_clipping"] == (0.0, "default of DeepSpeed 0.14.5")


def _differing(before: str, after: str) -> set[str]:
    sides = [resolve(read_text(text, "f")) for text in (before, after)]
    return {".".join(map(str, item.path)) for item in differences(*sides)}


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ('{"train_batch_size": 8}', '{"train_batch_size": 8, "gradient_clipping": 1.0}', set[str]()),
        ('{"train_batch_size": 8}', '{"train_batch_size": 8, "gradient_clipping": 0.5}', {"gradient_clipping"}),
        ('{"train_batch_size": 8}', '{"train_batch_size": 8, "fp16": {}}', set[str]()),
        ('{"zero_optimization": {"stage": 1}}', '{"zero_optimization": true}', set[str]()),
        (
            '{"zero_optimization": {"stage": 2, "cpu_offload": true}}',
            '{"zero_optimization": {"offload_optimizer": {"device": "cpu"}, "stage": 2}}',
            set[str](),
        ),
        ('{"zero_optimization": {"stage": 1}}', '{"zero_optimization": {"stage": 2}}', {"zero_optimization.stage"}),
    ],
)
def test_only_what_differs_in_effect_is_a_difference(before: str, after: str, paths: set[str]) -> None:
    assert _differing(before, after) == paths


def test_commands_show_files_presets_and_overrides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ds.json"
    file.write_text(_TEXT)
    assert main(["resolve", "--format", "json", str(file), "gradient_clipping=0.5"]) == 0
    records = {item["pointer"]: item for item in json.loads(capsys.readouterr().out)}
    assert records["/gradient_clipping"]["origin"] == "override gradient_clipping=0.5"
    assert main(["resolve", "zero3"]) == 0
    assert "zero_optimization.stage = 3" in capsys.readouterr().out
    assert main(["diff", "zero2", "zero2"]) == 0
    assert main(["diff", "zero2", "zero3"]) == 1
    assert "zero_optimization.stage\n  - 2  preset zero2\n  + 3  preset zero3\n" in capsys.readouterr().out
    assert main(["resolve", str(tmp_path / "absent.json")]) == 2
