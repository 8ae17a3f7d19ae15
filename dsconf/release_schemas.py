"""The JSON Schema of each minor DeepSpeed release, made from the closed one: `schemas/releases`, with an index.

A schema has the keys that its release reads, the removed ones that it still took, its defaults and its ranges.
"""

from __future__ import annotations

import json
from typing import Any

from dsconf.blocks import ROOT, block_type, home
from dsconf.diagnostic import Path
from dsconf.links import HOME
from dsconf.releases import bounds_in, default_changes, default_in, later, newest, number, releases, removed_in
from dsconf.resources import folder
from dsconf.schema import generate

FOLDER = "releases"
INDEX = "index.json"
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def minors() -> dict[str, str]:
    """The newest release that was looked at of each minor one: `0.14` to `0.14.5`."""
    return {".".join(map(str, number(item)[:2])): item for item in releases()}


def files() -> dict[str, str]:
    """The text of each file, by name; `latest.schema.json` is that of the newest release."""
    whole = generate("closed")
    found = {f"{minor}.schema.json": _text(_of(whole, release)) for minor, release in minors().items()}
    newest_name = f"{list(minors())[-1]}.schema.json"
    found["latest.schema.json"] = found[newest_name]
    index = {
        "latest": newest(),
        "schemas": [
            {"release": minor, "judged_as": release, "url": f"{HOME}schemas/{FOLDER}/{minor}.schema.json"}
            for minor, release in minors().items()
        ],
    }
    return {**found, INDEX: json.dumps(index, indent=2) + "\n"}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")) + "\n"


def _of(whole: dict[str, Any], release: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(json.dumps(whole))
    schema["$id"] = f"{HOME}schemas/{FOLDER}/{'.'.join(map(str, number(release)[:2]))}.schema.json"
    schema["title"] = f"DeepSpeed {release} configuration"
    _prune(schema, (), ROOT, release)
    for name, block in schema["definitions"].items():
        path = tuple(key for _, key in home(name))
        _prune(block, path, name, release)
    return schema


def _prune(block: dict[str, Any], path: Path, name: str, release: str) -> None:
    properties = block["properties"]
    for key in list(properties):
        if later((*path, key), release):
            del properties[key]
    for key, held in properties.items():
        bounds = bounds_in((*path, key), release)
        if bounds is not None:
            for word in _BOUNDS.values():
                held.pop(word, None)
            held.update({_BOUNDS[bound]: limit for bound, limit in bounds.items()})
    for old in block_type(name).retired:
        gone = removed_in((*path, old.key))
        if gone and number(release) < number(gone):
            properties[old.key] = {"description": f"Removed in DeepSpeed {gone}."}
    for changed in default_changes():
        known, value = default_in(changed.steps, release)
        key = str(changed.path[-1])
        held = properties.get(key, {})
        if known and "default" in held and changed.leads_to((*path, key), held["default"]):
            held["default"] = value


def publish() -> None:
    """Write the files anew, after a change of the models or of the releases."""
    from dsconf.atomic import write_text

    for name, text in files().items():
        write_text(folder("schemas") / FOLDER / name, text)


if __name__ == "__main__":
    publish()
