"""Each preset trains with the real DeepSpeed: steps, save and load, on one rank and on two."""

from __future__ import annotations

import math

import pytest

from dsconf import compile_config, presets
from proof.engine import Engine, async_io_available

NAMES = [name for name in presets.names() if name != "fp16"]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_preset_trains(name: str, world_size: int, engine: Engine) -> None:
    verdict = engine.run(compile_config(name, world_size=world_size).to_json(), world_size=world_size, model="big")
    if name == "zero3_nvme" and not async_io_available():
        assert verdict.phase == "initialize", verdict
        return
    assert verdict.trained, verdict.log
    assert all(math.isfinite(loss) for loss in verdict.losses) and verdict.losses[2] < verdict.losses[0]


@pytest.mark.parametrize("name", ["zero1", "zero2", "zero2_offload", "zero3", "zero3_offload"])
def test_fp16_takes_the_place_of_bf16(name: str, engine: Engine) -> None:
    verdict = engine.run(compile_config([name, "fp16"]).to_json())
    assert verdict.trained, verdict.log
