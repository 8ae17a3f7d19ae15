"""A page for each block of the configuration, with every key that a type of it has."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from dsconf.blocks import BlockType, Key, block_type, home, one_of, walk
from dsconf.diagnostic import Path
from dsconf.links import block_page, source_url
from dsconf.releases import BOUND_WORDS, told
from dsconf.rules.rule import DEEPSPEED

_READERS = {
    "pydantic": "An unknown key stops DeepSpeed. Values are converted where they can be.",
    "dict": "An unknown key is never looked at. Values are taken as they are.",
    "kwargs": "Every key becomes an argument of a class, so an unknown one stops DeepSpeed.",
    "opaque": "DeepSpeed hands it on without looking at it.",
}


@dataclass
class _Block:
    """The types that a block at one path may have, and its keys, each as the types define it."""

    path: Path
    types: dict[str, BlockType] = field(default_factory=dict)
    keys: dict[str, list[tuple[BlockType, Key]]] = field(default_factory=dict)


def names() -> list[str]:
    """The names of the pages, the top level first."""
    return [_file(path) for path in _blocks()]


def pages() -> dict[str, str]:
    """The name and the text of each page."""
    blocks = _blocks()
    return {_file(path): _page(block, blocks) for path, block in blocks.items()}


def _blocks() -> dict[Path, _Block]:
    found: dict[Path, _Block] = {}
    for path, type_, key in walk(block_type()):
        block = found.setdefault(path[:-1], _Block(path[:-1]))
        block.types[type_.name] = type_
        definitions = block.keys.setdefault(str(path[-1]), [])
        # Types that take the same parameters lead to the same block more than once.
        if (type_, key) not in definitions:
            definitions.append((type_, key))
    return found


def _file(path: Path) -> str:
    return f"config/{block_page(path)}.md"


def _page(block: _Block, blocks: dict[Path, _Block]) -> str:
    title = block_page(block.path) if block.path else "Top level"
    lines = ["---", f"title: {title}", "---", "", f"# {title}", ""]
    types = list(block.types.values())
    if len(types) == 1:
        lines += [types[0].doc, ""]
    else:
        lines += [f"| {types[0].tag or 'Type'} | |", "|---|---|"]
        lines += [f"| {_name(item)} | {' '.join(item.doc.split())} |" for item in types]
        lines.append("")
    lines += [f"{_READERS[types[0].reader]}", ""]
    for key, definitions in block.keys.items():
        lines += _key(key, definitions, block, blocks)
    retired = {old.key: old for item in types for old in item.retired}
    if retired:
        lines += ["## Old keys", "", "| Key | What became of it |", "|---|---|"]
        for old in retired.values():
            then = f"`{old.becomes}` took its place" if old.becomes else old.advice
            lines.append(f"| `{old.key}` | {old.status}: {then or 'nothing reads it'} |")
    return "\n".join([*lines, ""])


def _key(name: str, definitions: list[tuple[BlockType, Key]], block: _Block, blocks: dict[Path, _Block]) -> list[str]:
    lines = [f"## {name} {{ #{name} }}", ""]
    type_, key = definitions[0]
    if name == type_.tag and len(definitions) > 1:
        lines += ["Tells the types of this block apart, as in the table above.", ""]
        return [*lines, f"- Source: {_link(key)}", ""]
    sections: dict[tuple[str, ...], list[BlockType]] = {}
    for type_, key in definitions:
        of = home(type_.name)[-1][0].tag_value if block.path[1:] == ("params",) else ""
        sections.setdefault(tuple(_facts(name, key, of, block, blocks)), []).append(type_)
    for facts, types in sections.items():
        if len(types) < len(block.types):
            lines += [f"For {_list(types)}:", ""]
        lines += [*facts, ""]
    return lines


def _facts(name: str, key: Key, of: str, block: _Block, blocks: dict[Path, _Block]) -> list[str]:
    inner = (*block.path, name)
    facts = [key.doc, ""]
    if inner in blocks:
        facts.append(f"- Its keys: [{block_page(inner)}]({block_page(inner)}.md)")
    else:
        facts.append(f"- Type: {one_of(key.choices) if key.choices else key.words}")
    facts.append("- Required" if key.required else f"- Default: `{json.dumps(key.default)}`")
    if key.bounds:
        facts.append(f"- Range: {', '.join(f'{BOUND_WORDS[bound]} {value}' for bound, value in key.bounds.items())}")
    if key.auto:
        facts.append('- `"auto"` means something to DeepSpeed here')
    if key.dead:
        facts.append("- No effect: nothing reads it")
    facts += [f"- {what.capitalize()}: {words}" for what, words in told(inner, of)]
    facts.append(f"- Source: {_link(key)}")
    return facts


def _link(key: Key) -> str:
    return f"[deepspeed/{key.source}]({source_url(key.source, DEEPSPEED)})"


def _list(types: list[BlockType]) -> str:
    tag = types[0].tag
    return (f"{tag} " if tag else "") + ", ".join(dict.fromkeys(_name(item) for item in types))


def _name(type_: BlockType) -> str:
    return f"`{json.dumps(type_.tag_value)}`" if type_.tag else f"`{type_.name}`"
