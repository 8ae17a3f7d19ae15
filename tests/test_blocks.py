"""The table of blocks says what the models say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dsconf import blocks, models
from dsconf.models.shape import shape
from dsconf.models.table import as_text, generate
from proof.mutate import ODD_VALUES

SCALARS = [
    (name, key)
    for name in models.__all__
    for key in getattr(models, name).model_fields
    if not shape(getattr(models, name), key).blocks
]
VALUES = (*ODD_VALUES, [1.5], ["x"], [[1, 2]], "Column", "5", 5.0, "on", [0.9, "0.999"], {"x": 1}, 2**70, "1e3")


def test_the_committed_table_is_what_the_models_give() -> None:
    assert (Path(blocks.__file__).parent / blocks.FILE).read_text(encoding="utf-8") == as_text(generate())


def outcome(validator: Any, value: Any, strict: bool) -> str:
    try:
        return repr(validator.validate_python(value, strict=strict))
    except ValidationError as error:
        return json.dumps([(item["type"], item["loc"]) for item in error.errors(include_url=False)])


@pytest.mark.parametrize("name", models.__all__)
def test_a_key_takes_the_values_that_its_field_takes(name: str) -> None:
    fields = getattr(models, name).model_fields
    for key in (key for block, key in SCALARS if block == name):
        annotation: Any = fields[key].annotation
        for item in fields[key].metadata:
            annotation = Annotated[annotation, item]
        adapter, validator = TypeAdapter(annotation), blocks.block_type(name).keys[key].validator
        for value in VALUES:
            for strict in (True, False):
                assert outcome(validator, value, strict) == outcome(adapter, value, strict), (key, value, strict)


class Strictly:
    """A key's own strict door, in the shape of a validator."""

    def __init__(self, key: blocks.Key) -> None:
        self.key = key

    def validate_python(self, value: Any, strict: bool) -> Any:
        return self.key.strict(value)


@pytest.mark.parametrize("name", models.__all__)
@settings(max_examples=20, deadline=None)
@given(value=st.sampled_from(VALUES) | st.integers() | st.floats() | st.text(max_size=5) | st.booleans())
def test_what_plainly_fits_is_what_the_validator_takes(name: str, value: Any) -> None:
    for key in blocks.block_type(name).keys.values():
        if not key.blocks:
            assert outcome(Strictly(key), value, True) == outcome(key.validator, value, True), (key.doc, value)


def test_each_key_name_leads_to_the_places_where_it_lives() -> None:
    assert blocks.homes()["reduce_bucket_size"] == (("zero_optimization", "reduce_bucket_size"),)
    assert [(parent.name, key) for parent, key in blocks.home("AdamParams")] == [
        ("DeepSpeedConfig", "optimizer"),
        ("Adam", "params"),
    ]
