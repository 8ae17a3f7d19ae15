"""What editors understand beyond plain JSON Schema, and how they are told about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsconf import presets
from dsconf.blocks import ROOT, BlockType, block_type, home
from dsconf.diagnostic import Path
from dsconf.links import HOME, key_url

#: The published schema for editors.
SCHEMA_URL = f"{HOME}schemas/ds_config.schema.json"
#: Names that DeepSpeed configurations go by and other files do not.
FILE_MATCH = (
    "ds_config*.json",
    "*_ds_config.json",
    "deepspeed*.json",
    "**/deepspeed/*.json",
    "**/deepspeed_configs/*.json",
    "**/ds_configs/*.json",
)


def vscode_settings() -> dict[str, Any]:
    """The part of VS Code's `settings.json` that gives these files their schema."""
    # VS Code reads a pattern without a slash as one for any folder.
    return {"json.schemas": [{"fileMatch": list(FILE_MATCH), "url": SCHEMA_URL}]}


def schemastore_entry() -> dict[str, Any]:
    """The entry for the catalogue of SchemaStore."""
    return {
        "name": "DeepSpeed configuration",
        "description": "Configuration of DeepSpeed (ds_config.json)",
        "fileMatch": list(FILE_MATCH),
        "url": SCHEMA_URL,
    }


def union(types: Sequence[str], definitions: str) -> dict[str, Any]:
    """One of several types of a block, as a choice that the tag makes.

    Editors then offer the tag's values with what each means, and of the keys only those of the type that was chosen.
    `definitions`: where the schemas of the types are, to be filled in with the name of one.
    """
    blocks = [block_type(name) for name in types]
    tag = blocks[0].tag or ""
    return {
        "type": "object",
        "properties": {tag: _tag(blocks)},
        "allOf": [
            {"if": _chosen(block, tag), "then": {"$ref": definitions.format(model=block.name)}} for block in blocks
        ],
    }


def _tag(blocks: Sequence[BlockType]) -> dict[str, Any]:
    words = [" ".join(block.doc.split()) for block in blocks]
    values: dict[str, Any] = {"enum": [block.tag_value for block in blocks], "enumDescriptions": words}
    spellings = [_any_case(str(block.tag_value)) for block in blocks if block.folded]
    url = key_url((*_place(blocks[0]), blocks[0].tag or ""))
    return {
        "description": f"Decides which keys the block has.\n{url}",
        **({"anyOf": [values, {"pattern": f"^({'|'.join(spellings)})$"}]} if spellings else values),
    }


def _place(block: BlockType) -> Path:
    return tuple(name for _, name in home(block.name)) if block.name != ROOT else ()


def _chosen(block: BlockType, tag: str) -> dict[str, Any]:
    value = {"pattern": f"^{_any_case(block.tag_value)}$"} if block.folded else {"const": block.tag_value}
    condition: dict[str, Any] = {"type": "object", "properties": {tag: value}}
    # Without the tag it is the type whose key has a default.
    return {**condition, "required": [tag]} if block.keys[tag].required else condition


def _any_case(word: str) -> str:
    return "".join(f"[{char.upper()}{char.lower()}]" if char.isalpha() else char for char in word)


def annotate(properties: dict[str, Any], block: BlockType) -> None:
    """Add what editors show on hover, and mark what has no effect."""
    place = _place(block)
    for name, key in block.keys.items():
        url = key_url((*place, name))
        schema = properties[name]
        if key.dead:
            schema["deprecated"] = True
            schema["deprecationMessage"] = "No effect: nothing reads it."
        schema["description"] = f"{key.doc}\n{url}"
        default = "" if key.required else f" Default: `{_json(key.default)}`."
        schema["markdownDescription"] = f"{key.doc}{default}\n\n[{name}]({url})"


def snippets() -> list[dict[str, Any]]:
    """The presets, to start a file with."""
    return [
        {"label": f"preset {name}", "description": presets.summary(name), "body": presets.read(name)}
        for name in presets.names()
    ]


def _json(value: Any) -> str:
    return json.dumps(value)
