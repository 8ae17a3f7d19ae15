"""The JSON Schemas (draft-07), generated from the models and from the types of reports.

`closed` admits what the compiler emits and nothing else. `open` is for editors: unknown keys pass, old keys are
marked as deprecated. `report` describes what `dsconf validate --format json` prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from dsconf.links import HOME
from dsconf.resources import folder

Variant = Literal["closed", "open", "report"]

FILES: dict[Variant, str] = {
    "closed": "ds_config.closed.schema.json",
    "open": "ds_config.schema.json",
    "report": "report.schema.json",
}
#: The entry to submit to SchemaStore, beside the schemas.
CATALOG = "schemastore.json"


def generate(variant: Variant) -> dict[str, Any]:
    """Build a schema from the models, or from the types of reports."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"{HOME}schemas/{FILES[variant]}",
        **(_report() if variant == "report" else _config(variant)),
    }


def _config(variant: Variant) -> dict[str, Any]:
    from pydantic.json_schema import models_json_schema

    from dsconf import models
    from dsconf.editors import snippets

    classes = [getattr(models, name) for name in models.__all__]
    _, raw = models_json_schema([(cls, "validation") for cls in classes], ref_template=_REFERENCE)
    definitions = {
        name: _block(cls, raw["$defs"][name], variant) for name, cls in zip(models.__all__, classes, strict=True)
    }
    root = definitions.pop("DeepSpeedConfig")
    if variant == "open":
        root["defaultSnippets"] = snippets()
    return {"title": "DeepSpeed configuration", **root, "definitions": dict(sorted(definitions.items()))}


def _report() -> dict[str, Any]:
    from pydantic import TypeAdapter

    from dsconf.report.records import ReportRecord

    raw = TypeAdapter(ReportRecord).json_schema(ref_template=_REFERENCE)
    definitions = raw.pop("$defs")
    title = "Report of dsconf validate --format json"
    return {"title": title, **_draft7(raw), "definitions": _draft7(definitions)}


_REFERENCE = "#/definitions/{model}"


def committed(variant: Variant) -> str:
    """The text of the schema that is published with this version."""
    return (folder("schemas") / FILES[variant]).read_text(encoding="utf-8")


def as_text(schema: Mapping[str, Any]) -> str:
    """The text that a schema is published as."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


@lru_cache(maxsize=1)
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft7Validator(json.loads(committed("closed")))


def check_against_schema(values: Mapping[str, Any]) -> None:
    """Check a canonical configuration against the closed schema.

    Raises:
        RuntimeError: it does not fit, which means that models and schema disagree: a fault of dsconf.
    """
    error = next(_validator().iter_errors(values), None)
    if error is not None:
        where = "/".join(map(str, error.absolute_path))
        raise RuntimeError(f"the compiled configuration does not fit the published schema at /{where}: {error.message}")


def _block(cls: Any, raw: dict[str, Any], variant: Variant) -> dict[str, Any]:
    from dsconf.blocks import block_type
    from dsconf.editors import annotate
    from dsconf.models.shape import extras, shape

    properties: dict[str, Any] = {}
    for name, info in cls.model_fields.items():
        nullable = not shape(cls, name).blocks or extras(info).get("nullable")
        field = raw["properties"][name]
        properties[name] = _property(_chosen_by_tag(field) if variant == "open" else field, bool(nullable))
    required = list(raw.get("required", ()))
    if variant == "open":
        if cls.tag:
            # What the tag may be is said where the block is chosen by it.
            properties[cls.tag] = {}
        annotate(properties, block_type(cls.__name__))
        for old in cls.retired:
            properties[old.key] = _retired(old)
    block: dict[str, Any] = {"description": raw.get("description", ""), "type": "object", "properties": properties}
    if required:
        block["required"] = required
    if variant == "closed":
        block["additionalProperties"] = False
    return block


def _chosen_by_tag(node: Any) -> Any:
    """Discriminated unions as choices that editors understand."""
    from dsconf.editors import union

    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        if "discriminator" in fields:
            rest = {key: value for key, value in fields.items() if key not in ("discriminator", "oneOf")}
            types = [item["$ref"].rpartition("/")[2] for item in fields["oneOf"]]
            return {**rest, **union(types, _REFERENCE)}
        whole = {key: _chosen_by_tag(value) for key, value in fields.items()}
        branches = whole.get("anyOf", [])
        if len(branches) == 2 and "allOf" in branches[0] and branches[1] == {"type": "null"}:
            # A choice that may be null: one level less, so that errors are about the key that is wrong.
            del whole["anyOf"]
            whole |= {**branches[0], "type": ["object", "null"]}
        return whole
    return [_chosen_by_tag(item) for item in cast("list[Any]", node)] if isinstance(node, list) else node


def _property(raw: dict[str, Any], nullable: bool) -> dict[str, Any]:
    schema = cast("dict[str, Any]", _draft7(raw))
    if not nullable:
        schema.pop("default", None)
        branches = [item for item in schema.get("anyOf", ()) if item != {"type": "null"}]
        if len(branches) == 1:
            del schema["anyOf"]
            schema = {**schema, **branches[0]}
    if "$ref" in schema and len(schema) > 1:
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, "allOf": [{"$ref": schema["$ref"]}]}
    return schema


_OURS = ("title", "discriminator", "source", "dead", "auto", "nullable", "refuses")


def _draft7(node: Any) -> Any:
    """Drop what draft-07 does not know and what is ours alone."""
    if isinstance(node, dict):
        pairs = {key: value for key, value in cast("dict[str, Any]", node).items() if key not in _OURS}
        return {key: _draft7(value) for key, value in pairs.items()}
    if isinstance(node, list):
        return [_draft7(item) for item in cast("list[Any]", node)]
    return node


def _retired(old: Any) -> dict[str, Any]:
    if old.status == "removed":
        text = f"REMOVED: DeepSpeed refuses the file; {old.advice}."
    elif old.becomes:
        text = f"DEPRECATED: write `{old.becomes}`."
    else:
        text = f"DEPRECATED: {old.advice}."
    return {"description": text, "deprecated": True, "deprecationMessage": text}


def publish() -> None:
    """Write the published schemas and the table of blocks anew, after a change of the models."""
    import subprocess
    import sys

    from dsconf import blocks, presets
    from dsconf.atomic import write_text
    from dsconf.editors import schemastore_entry
    from dsconf.models import table

    # The schema shows them as examples.
    presets.publish()
    write_text(Path(blocks.__file__).parent / blocks.FILE, table.as_text(table.generate()))
    blocks.block_type.cache_clear()
    for variant, name in FILES.items():
        write_text(folder("schemas") / name, as_text(generate(variant)))
    write_text(folder("schemas") / CATALOG, as_text(schemastore_entry()))
    # A fresh process, since this one may have read the table of blocks before it was written.
    for module in ("dsconf.release_schemas", "dsconf.page_table"):
        subprocess.run([sys.executable, "-m", module], check=True)


if __name__ == "__main__":
    publish()
