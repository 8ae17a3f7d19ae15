"""Overrides: their grammar and what values mean."""

from __future__ import annotations

import json

import pytest

from dsconf import compile_config, presets
from dsconf.overrides import OverrideError, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=5e8", 5e8),
        ("a=500M", 500_000_000),
        ("a=1.5k", 1500),
        ("a=2^20", 1 << 20),
        ("a=16GiB", 16 << 30),
        ("a=true", True),
        ("a=null", None),
        ("a=[0.9, 0.95]", [0.9, 0.95]),
        ('a={"device": "cpu"}', {"device": "cpu"}),
        ("a=cpu", "cpu"),
        ("a=/local_nvme", "/local_nvme"),
        ("a=x=y", "x=y"),
        ("a=", ""),
        ("a=NaN", "NaN"),
    ],
)
def test_values_are_json_numbers_for_people_or_text(text: str, value: object) -> None:
    assert parse(text).value == value


def test_paths_reach_into_lists() -> None:
    config = compile_config("zero2", ["optimizer.params.betas[1]=0.999", "optimizer.params.betas.0=0.8"])
    assert config.to_dict()["optimizer"]["params"]["betas"] == [0.8, 0.999]


def test_a_key_can_be_removed() -> None:
    assert "gradient_clipping" not in compile_config("zero2", ["~gradient_clipping"]).to_dict()


def test_later_presets_and_overrides_win() -> None:
    config = compile_config(["zero2", "fp16"], {"fp16": {"initial_scale_power": 12}}).to_dict()
    assert config["bf16"] == {"enabled": False} and config["fp16"]["initial_scale_power"] == 12


@pytest.mark.parametrize("text", ["a", "=1", "a b=1", "~", "a..b=1", "-x=1", ""])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(OverrideError, match="is not an override"):
        parse(text)


def test_the_committed_values_of_the_presets_are_those_of_their_files() -> None:
    assert json.loads(presets.generated()) == {name: presets.read(name) for name in presets.names()}, (
        "run: python -m dsconf.schema"
    )
