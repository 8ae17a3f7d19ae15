"""The published schema of each minor DeepSpeed release."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from dsconf.release_schemas import FOLDER, INDEX, files, minors
from dsconf.resources import folder


def _committed(name: str) -> str:
    return (folder("schemas") / FOLDER / name).read_text(encoding="utf-8")


def test_the_committed_schemas_are_what_models_and_releases_give() -> None:
    made = files()
    assert {path.name for path in (folder("schemas") / FOLDER).iterdir()} == set(made)
    for name, text in made.items():
        assert _committed(name) == text, "run: python -m dsconf.schema"
    index = json.loads(made[INDEX])
    assert [item["release"] for item in index["schemas"]] == list(minors())


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        ({"train_batch_size": 8}, "0.9", "0.19"),
        ({"torch_autocast": {"enabled": True}}, "0.17", "0.19"),
        ({"elasticity": {"enabled": False}}, "0.9", "0.18"),
        ({"bf16": {"enabled": True, "check_grad_overflow": True}}, "0.17", "0.19"),
        ({"zero_optimization": {"stage": 3, "leaf_module": {}}}, "0.18", "0.19"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 0}}, "0.9", "0.18"),
    ],
)
def test_a_schema_has_the_keys_of_its_release(values: dict[str, Any], first: str, last: str) -> None:
    fits = [
        minor
        for minor in minors()
        if jsonschema.Draft7Validator(json.loads(_committed(f"{minor}.schema.json"))).is_valid(values)
    ]
    every = list(minors())
    assert fits == every[every.index(first) : every.index(last) + 1]
