"""The library: typed configurations, one exception for everything, canonical files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from omegaconf import OmegaConf

from dsconf import ConfigError, DeepSpeedConfig, compile_config, load, presets, validate
from dsconf.models import AdamW, Bf16, CpuOptimizerOffload3, NvmeParamOffload, Zero0, Zero1, Zero2, Zero3


def test_a_wrong_combination_raises_one_exception_that_lists_everything() -> None:
    with pytest.raises(ConfigError) as caught:
        DeepSpeedConfig(
            train_micro_batch_size_per_gpu=1,
            fp16={"enabled": True},
            bf16=Bf16(enabled=True),
            steps_per_print=0,
            zero_optimization=Zero3(),
        )
    errors = [item.code for item in caught.value.diagnostics if item.severity == "error"]
    assert sorted(errors) == ["DS501", "DS903"]
    assert "fp16-with-bf16" in str(caught.value) and "never-prints" in str(caught.value)


def test_a_block_on_its_own_refuses_what_its_stage_does_not_have() -> None:
    with pytest.raises(ConfigError) as caught:
        Zero3(allgather_partitions=True, reduce_bucket_size=0)
    assert {item.code for item in caught.value.diagnostics} == {"DS301", "DS202"}
    with pytest.raises(ConfigError, match="offload_param"):
        Zero2(offload_param={"device": "cpu"})
    with pytest.raises(ConfigError, match="nvme_path"):
        NvmeParamOffload()
    with pytest.raises(TypeError, match="Zero3 is for stage 3"):
        Zero3(stage=2)


def test_stages_are_different_types() -> None:
    for stage, cls in enumerate((Zero0, Zero1, Zero2, Zero3)):
        config = load({"train_batch_size": 1, "zero_optimization": {"stage": stage}})
        assert type(config.zero_optimization) is cls and config.zero_stage == stage
    assert not {"allgather_partitions", "allgather_bucket_size"} & set(Zero3.model_fields)
    for cls in (Zero0, Zero1, Zero2):
        assert not [name for name in cls.model_fields if name == "offload_param" or name.startswith("stage3_")]


def test_only_what_was_set_is_emitted_tag_first_with_exact_numbers() -> None:
    config = DeepSpeedConfig(
        train_micro_batch_size_per_gpu=4,
        zero_optimization=Zero3(
            reduce_bucket_size=5e8,
            stage3_model_persistence_threshold=9223372036854775807,
            offload_optimizer=CpuOptimizerOffload3(ratio=0.3),
        ),
        optimizer=AdamW(params={"lr": 3e-5}),
    )
    assert (
        config.to_json()
        == """{
  "train_micro_batch_size_per_gpu": 4,
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": 3e-05
    }
  },
  "zero_optimization": {
    "stage": 3,
    "reduce_bucket_size": 500000000,
    "offload_optimizer": {
      "device": "cpu",
      "ratio": 0.3
    },
    "stage3_model_persistence_threshold": 9223372036854775807
  }
}
"""
    )


@pytest.mark.parametrize("name", [name for name in presets.names() if name != "fp16"])
def test_emit_load_emit_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    compile_config(name).write(first)
    load(first).write(second)
    assert first.read_bytes() == second.read_bytes()


def test_old_spellings_are_rewritten() -> None:
    old = {
        "train_batch_size": 2,
        "bfloat16": {"enabled": True},
        "allgather_size": 1000,
        "zero_optimization": True,
    }
    assert load(old).to_dict() == {
        "train_batch_size": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 1, "allgather_bucket_size": 1000},
    }
    zero = {"stage": 3, "cpu_offload": True, "cpu_offload_param": True, "prefetch_bucket_size": 7}
    assert load({"train_batch_size": 1, "zero_optimization": zero}).to_dict()["zero_optimization"] == {
        "stage": 3,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"},
        "stage3_prefetch_bucket_size": 7,
    }


def test_coerced_values_come_out_as_the_engine_uses_them() -> None:
    config = load({"train_batch_size": 1, "zero_optimization": {"stage": "2", "reduce_bucket_size": "1000"}})
    assert config.to_dict()["zero_optimization"] == {"stage": 2, "reduce_bucket_size": 1000}


def test_validate_says_everything_and_raises_nothing() -> None:
    assert {item.code for item in validate({"steps_per_print": 0, "train_batch_size": 1})} == {"DS901", "DS903"}
    assert {item.code for item in validate({})} == {"DS601", "DS901"}


def test_a_mapping_that_is_no_dict_is_what_deepspeed_takes_for_a_path() -> None:
    config = OmegaConf.create({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}})
    (found,) = (item for item in validate(cast("Mapping[str, Any]", config)) if item.severity == "error")
    assert (found.name, found.path) == ("not-a-dict", ())
    assert "OmegaConf.to_container" in found.help


def test_load_reads_files_and_checks_the_number_of_ranks(tmp_path: Path) -> None:
    path = tmp_path / "ds_config.json"
    path.write_text('{"train_batch_size": 6}')
    assert load(path, world_size=3).train_batch_size == 6
    with pytest.raises(ConfigError, match=r"ds_config.json:1:22: DS603"):
        load(path, world_size=4)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.json")


def test_values_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(TypeError, match="tensorboard"):
        load({"train_batch_size": 1, "tensorboard": {"job_name": object()}})


def test_configurations_are_immutable() -> None:
    config = load({"train_batch_size": 1})
    with pytest.raises(ValueError, match="frozen"):
        config.train_batch_size = 2


def test_writing_is_atomic_and_keeps_permissions(tmp_path: Path) -> None:
    path = tmp_path / "ds_config.json"
    path.write_text("old")
    path.chmod(0o640)
    load({"train_batch_size": 1}).write(path)
    assert json.loads(path.read_text()) == {"train_batch_size": 1}
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["ds_config.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "ds_config.json"
    folder.mkdir()
    with pytest.raises(OSError):
        load({"train_batch_size": 1}).write(folder)
    assert os.listdir(tmp_path) == ["ds_config.json"]


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], {"x": -math.inf}])
def test_what_json_cannot_hold_is_refused_even_where_any_value_goes(value: object) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "pipeline": {"stages": value}}
    assert "DS201" in [item.code for item in validate(config)]
