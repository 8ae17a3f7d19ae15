"""The published JSON Schemas are those of the models, valid draft-07, and as strict as they say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from dsconf import compile_config, presets
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
