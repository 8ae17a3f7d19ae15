"""What can stand at a cursor, and what stands there: keys and values that fit the stage, the device, the type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dsconf.blocks import BlockType, Key, block_type
from dsconf.links import key_url, source_url
from dsconf.lsp.cursor import Cursor, Scope
from dsconf.releases import BOUND_WORDS
from dsconf.rules.rule import DEEPSPEED


@dataclass(frozen=True)
class Suggestion:
    """A key or a value: what to show, what to write, and what it means."""

    label: str
    text: str
    detail: str
    documentation: str
    deprecated: bool = False


def suggestions(place: Cursor) -> list[Suggestion]:
    """Everything that fits at a cursor."""
    blocks = _blocks(place.scopes)
    found = _keys(place, blocks) if place.at == "key" else _values(place, blocks)
    return list({item.label: item for item in found}.values())


def hover(place: Cursor) -> str | None:
    """What the key under the cursor is, or the key whose value is under it, in Markdown."""
    name = place.word if place.at == "key" else place.key or ""
    path = tuple(scope.name for scope in place.scopes[1:] if scope.name)
    texts = [_page(name, block.keys[name], (*path, name)) for block in _blocks(place.scopes) if name in block.keys]
    return "\n\n---\n\n".join(dict.fromkeys(texts)) or None


def _keys(place: Cursor, blocks: Sequence[BlockType]) -> Iterator[Suggestion]:
    given = place.scopes[-1].values
    path = tuple(scope.name for scope in place.scopes[1:] if scope.name)
    for block in blocks:
        for name, key in block.keys.items():
            if name in given and name != place.word:
                continue
            text = json.dumps(name) + ("" if place.colon else ": ")
            yield Suggestion(name, text, key.words, _page(name, key, (*path, name)), key.dead)


def _values(place: Cursor, blocks: Sequence[BlockType]) -> Iterator[Suggestion]:
    for block in _blocks(place.scopes, choose=False):
        if block.tag == place.key and place.key:
            yield _value(block.tag_value, " ".join(block.doc.split()))
    for block in blocks:
        key = block.keys.get(place.key or "")
        if key is None or block.tag == place.key:
            continue
        choices: list[Any] = list(key.choices)
        choices += [True, False] if key.boolean else []
        if not key.required and not key.blocks and key.default not in choices:
            choices.append(key.default)
        for choice in choices:
            yield _value(choice, "default" if choice == key.default and not key.required else "")


def _value(value: Any, detail: str) -> Suggestion:
    text = json.dumps(value)
    return Suggestion(text, text, detail, detail)


def _blocks(scopes: Sequence[Scope], choose: bool = True) -> list[BlockType]:
    """The types that the innermost object may have; with `choose`, what its own tag says counts too."""
    found = [block_type()]
    container = ""
    for number, scope in enumerate(scopes[1:], 2):
        if container:
            # An item of a list or of a mapping with names that authors choose.
            container = ""
        else:
            keys = [block.keys[scope.name] for block in found if scope.name in block.keys]
            found = list({name: block_type(name) for key in keys for name in key.blocks}.values())
            container = next((key.container for key in keys if key.container), "")
        if not container and (choose or number < len(scopes)):
            found = _chosen(found, scope.values)
    return [] if container else found


def _chosen(blocks: list[BlockType], values: dict[str, Any]) -> list[BlockType]:
    """Those types whose tag has the value that was written, all if none was or none has it."""
    tag = next((block.tag for block in blocks if block.tag), None)
    if tag is None or values.get(tag) is None:
        return blocks
    return [block for block in blocks if _same(block, values[tag])] or blocks


def _same(block: BlockType, value: Any) -> bool:
    if block.folded:
        return str(value).lower() == str(block.tag_value).lower()
    return value == block.tag_value


def _page(name: str, key: Key, path: tuple[str, ...]) -> str:
    lines = [f"**{name}**: {key.words}", "", key.doc, ""]
    if not key.required:
        lines.append(f"- Default: `{json.dumps(key.default)}`")
    if key.bounds:
        lines.append(f"- Range: {', '.join(f'{BOUND_WORDS[bound]} {value}' for bound, value in key.bounds.items())}")
    if key.dead:
        lines.append("- No effect: nothing reads it")
    lines.append(f"- Source: [deepspeed/{key.source}]({source_url(key.source, DEEPSPEED)})")
    lines.append(f"- [Documentation]({key_url(path)})")
    return "\n".join(lines)
