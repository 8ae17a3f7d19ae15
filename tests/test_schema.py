"""The published JSON Schemas are those of the models, valid draft-07, and as strict as they say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from dsconf import compile_config, presets
from dsconf.editors import FILE_MATCH, schemastore_entry, vscode_settings
from dsconf.resources import folder
from dsconf.rules import RULES
from dsconf.schema import FILES, Variant, as_text, committed, generate

VARIANTS: list[Variant] = list(FILES)


@pytest.fixture(scope="module")
def closed() -> Any:
    return jsonschema.Draft7Validator(json.loads(committed("closed")))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_committed_schema_is_what_the_models_give(variant: Variant) -> None:
    assert as_text(generate(variant)) == committed(variant), "run: python -m dsconf.schema"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_schema_is_valid_draft_07_without_later_words(variant: Variant) -> None:
    schema = json.loads(committed(variant))
    jsonschema.Draft7Validator.check_schema(schema)
    text = committed(variant)
    assert not [word for word in ('"$defs"', '"prefixItems"', '"discriminator"', '"gt"', '"ge"') if word in text]


@pytest.mark.parametrize("name", [name for name in presets.names() if name != "fp16"])
def test_what_the_compiler_emits_fits_the_closed_schema(name: str, closed: Any) -> None:
    assert list(closed.iter_errors(compile_config(name).to_dict())) == []


@pytest.mark.parametrize(
    "code", ["DS101", "DS102", "DS104", "DS201", "DS202", "DS203", "DS301", "DS303", "DS401", "DS403", "DS404", "DS701"]
)
def test_the_closed_schema_refuses_what_the_types_refuse(code: str, closed: Any) -> None:
    (rule,) = [rule for rule in RULES if rule.code == code]
    assert list(closed.iter_errors(json.loads(rule.example("bad"))))
    assert not list(closed.iter_errors(json.loads(rule.example("good"))))


def test_the_open_schema_lets_unknown_keys_pass_and_marks_old_ones() -> None:
    schema = json.loads(committed("open"))
    validator = jsonschema.Draft7Validator(schema)
    assert not list(validator.iter_errors({"train_batch_size": 1, "mine": 2, "optimizer": {"type": "adamw"}}))
    assert schema["properties"]["amp"]["deprecated"] is True
    assert schema["definitions"]["Zero2"]["properties"]["cpu_offload"]["deprecationMessage"]


def test_the_open_schema_takes_whatever_is_right() -> None:
    validator = jsonschema.Draft7Validator(json.loads(committed("open")))
    for rule in RULES:
        if isinstance(rule.good, dict) and rule.context.reader == "deepspeed":
            assert list(validator.iter_errors(json.loads(rule.example("good")))) == [], rule.code
    for name in presets.names():
        assert list(validator.iter_errors(presets.read(name))) == []


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"zero_optimization": {"stage": 4}}', ["zero_optimization", "stage"]),
        ('{"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "big"}}', ["zero_optimization", "stage3_prefetch_bucket_size"]),
        ('{"zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}}', ["zero_optimization", "offload_param", "device"]),
        ('{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}', ["zero_optimization", "offload_param"]),
        ('{"optimizer": {"type": "adam", "params": {"lr": "fast"}}}', ["optimizer", "params"]),
    ],
)  # fmt: skip
def test_the_open_schema_points_at_what_is_wrong(text: str, pointer: list[str]) -> None:
    validator = jsonschema.Draft7Validator(json.loads(committed("open")))
    assert [list(error.absolute_path) for error in validator.iter_errors(json.loads(text))] == [pointer]


def test_editors_are_told_what_keys_and_values_mean() -> None:
    schema = json.loads(committed("open"))
    stage = schema["properties"]["zero_optimization"]["properties"]["stage"]
    assert stage["enum"] == [0, 1, 2, 3] and len(stage["enumDescriptions"]) == 4
    key = schema["definitions"]["Zero3"]["properties"]["stage3_prefetch_bucket_size"]
    assert "config/zero_optimization/#stage3_prefetch_bucket_size" in key["markdownDescription"]
    assert {item["label"] for item in schema["defaultSnippets"]} == {f"preset {name}" for name in presets.names()}
    assert schema["definitions"]["DataEfficiency"]["properties"]["enabled"]["deprecationMessage"]


def test_the_catalogue_and_the_settings_name_the_schema_that_is_published() -> None:
    entry = json.loads((folder("schemas") / "schemastore.json").read_text())
    assert entry == schemastore_entry(), "run: python -m dsconf.schema"
    (setting,) = vscode_settings()["json.schemas"]
    assert entry["url"] == setting["url"] == json.loads(committed("open"))["$id"]
    assert "*.json" not in FILE_MATCH and not [name for name in FILE_MATCH if "{" in name]
