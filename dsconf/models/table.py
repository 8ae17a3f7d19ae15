"""The models written out as the table that `dsconf.blocks` reads."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from dsconf import models
from dsconf.blocks import folded, whole
from dsconf.models.block import WRAPS, Block
from dsconf.models.shape import extras, shape, tag_values
from dsconf.models.words import describe, literals, only_literals


def generate() -> dict[str, Any]:
    """Each block's record by the name of its class."""
    return {name: _without_defaults(_block(getattr(models, name))) for name in models.__all__}


def as_text(table: dict[str, Any]) -> str:
    """The text of the table's file: one key a line, so that a change shows as one."""
    blocks: list[str] = []
    for name, block in table.items():
        head = json.dumps({key: value for key, value in block.items() if key != "keys"}, ensure_ascii=False)[:-1]
        keys = [
            f"  {json.dumps(key)}: {json.dumps(record, ensure_ascii=False)}" for key, record in block["keys"].items()
        ]
        inner = ",\n".join(keys)
        blocks.append(f'{json.dumps(name)}: {head}, "keys": {{\n{inner}\n}}}}')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _block(cls: type[Block]) -> dict[str, Any]:
    return {
        "doc": " ".join((cls.__doc__ or "").split()),
        "reader": cls.reader,
        "tag": cls.tag,
        "tag_value": tag_values(cls)[0] if cls.tag else None,
        "actor": cls.actor,
        "gate": cls.gate,
        "folded": getattr(cls, "folded", False),
        "retired": [_retired(item) for item in cls.retired],
        "keys": {name: _without_defaults(_key(cls, name, info)) for name, info in cls.model_fields.items()},
    }


def _retired(item: Any) -> dict[str, Any]:
    record = item._asdict()
    record["values"] = None if item.values is None else [[old, new] for old, new in item.values.items()]
    return {name: value for name, value in record.items() if value not in (None, "")}


def _key(cls: type[Block], name: str, info: FieldInfo) -> dict[str, Any]:
    form, more = shape(cls, name), extras(info)
    record: dict[str, Any] = {
        "doc": info.description or "",
        "source": more["source"],
        "required": info.is_required(),
        "default": None if info.is_required() else info.get_default(call_default_factory=True),
        "words": describe(info.annotation),
        "choices": list(literals(info.annotation)) if only_literals(info.annotation) else [],
        "bounds": {
            bound: value
            for item in info.metadata
            for bound in ("gt", "ge", "lt", "le")
            if (value := getattr(item, bound, None)) is not None
        },
        "blocks": [block.__name__ for block in form.blocks],
        "container": form.container,
        "wraps": WRAPS in info.metadata,
        "boolean": describe(info.annotation) == "true or false",
        **{word: more[word] for word in ("auto", "dead", "nullable", "refuses")},
    }
    if not form.blocks:
        record["schema"] = _core_schema(info)
    return record


def _core_schema(info: FieldInfo) -> Any:
    annotation: Any = info.annotation
    for item in info.metadata:
        annotation = Annotated[annotation, item]
    return _named(TypeAdapter(annotation).core_schema)


def _named(schema: Any) -> Any:
    """A core schema as JSON: functions by their names, and nothing that only Pydantic itself reads."""
    if isinstance(schema, dict):
        pairs = cast("dict[str, Any]", schema)
        if pairs.get("type") == "function-before":
            pairs = {**pairs, "function": {whole: "whole", folded: "folded"}[pairs["function"]["function"]]}
        return {key: _named(value) for key, value in pairs.items() if key not in ("metadata", "ref", "serialization")}
    return [_named(item) for item in cast("list[Any]", schema)] if isinstance(schema, (list, tuple)) else schema


def _without_defaults(record: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty, apart from what every record has."""
    always = ("required", "doc", "source", "words", "keys", "reader")
    kept = {key: value for key, value in record.items() if key in always or not _is_empty(value)}
    # The default false and the stage 0 are values.
    return kept | {key: record[key] for key in ("default", "tag_value") if record.get(key) is not None}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (str, list, dict)) and not value)
