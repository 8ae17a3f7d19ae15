"""Spoil a configuration the way people do, and in ways that nobody would."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, TypeAlias

from dsconf.blocks import homes

Tree: TypeAlias = "dict[str, Any]"

#: Values that stand in a configuration by mistake: of another type, out of range, spelt as text, filled in by nobody.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    0.5,
    -0.5,
    5e8,
    500_000_000,
    500_000_001,
    2**63,
    1e30,
    float("nan"),
    float("inf"),
    "",
    "auto",
    "true",
    "false",
    "3",
    "5e8",
    "none",
    "cpu",
    "nvme",
    "fp16",
    "bf16",
    [],
    [0.9, 0.999],
    {},
    {"enabled": True},
)


def mutated(tree: Tree, random: Random, times: int = 1) -> Tree:
    """A copy with so many mutations, each of a kind and at a place drawn by `random`."""
    changed = copy.deepcopy(tree)
    for _ in range(times):
        mutation = random.choice((misspell, drop, retype, revalue, relocate, insert, nest))
        mutation(changed, random)
    return changed


def misspell(tree: Tree, random: Random) -> None:
    """Drop, double, swap or change a letter of a key."""
    block, key = _place(tree, random)
    if not key:
        return
    at = random.randrange(len(key))
    wrong = random.choice(
        (
            key[:at] + key[at + 1 :],
            key[:at] + key[at] + key[at:],
            key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
            key[:at] + random.choice("aeiostx_") + key[at + 1 :],
            key.replace("_", "-"),
            key.upper(),
        )
    )
    block[wrong] = block.pop(key)


def drop(tree: Tree, random: Random) -> None:
    """Leave a key out."""
    block, key = _place(tree, random)
    block.pop(key, None)


def retype(tree: Tree, random: Random) -> None:
    """Write a value as another type of JSON: a number as text, a switch as a number, a list for one value."""
    block, key = _place(tree, random)
    if key not in block:
        return
    value = block[key]
    if isinstance(value, bool):
        block[key] = random.choice((int(value), str(value).lower(), str(value), None))
    elif isinstance(value, (int, float)):
        block[key] = random.choice((str(value), float(value), bool(value), [value], -value, value + 0.5, None))
    elif isinstance(value, str):
        block[key] = random.choice(([value], value.upper(), value.lower(), value + " ", {"type": value}, None, 1))
    else:
        block[key] = random.choice((None, True, [value], str(value), {}, []))


def revalue(tree: Tree, random: Random) -> None:
    """Give a key an odd value."""
    block, key = _place(tree, random)
    if key in block:
        block[key] = copy.deepcopy(random.choice(ODD_VALUES))


def relocate(tree: Tree, random: Random) -> None:
    """Move a key to another block."""
    block, key = _place(tree, random)
    target = random.choice(list(_blocks(tree)))
    if key in block and block[key] is not target and not _holds(block[key], target):
        target[key] = block.pop(key)


def insert(tree: Tree, random: Random) -> None:
    """Add a key of DeepSpeed's, mostly where it belongs, with an odd value."""
    path = random.choice(random.choice(sorted(homes().values())))
    block: Tree = tree
    if random.random() < 0.8:
        for part in path[:-1]:
            inner = block.setdefault(str(part), {})
            if not isinstance(inner, dict):
                break
            block = inner
    block[str(path[-1])] = copy.deepcopy(random.choice(ODD_VALUES))


def nest(tree: Tree, random: Random) -> None:
    """Wrap a block in one of its own name, or unwrap it."""
    block, key = _place(tree, random)
    value = block.get(key)
    if isinstance(value, dict) and random.random() < 0.5:
        block.pop(key)
        block.update(value)
    elif key in block:
        block[key] = {key: value}


def _blocks(tree: Tree) -> Iterator[Tree]:
    yield tree
    for value in tree.values():
        if isinstance(value, dict):
            yield from _blocks(value)


def _place(tree: Tree, random: Random) -> tuple[Tree, str]:
    """A block and one of its keys, "" if it has none."""
    block = random.choice(list(_blocks(tree)))
    return block, random.choice(sorted(block)) if block else ""


def _holds(value: Any, block: Tree) -> bool:
    return isinstance(value, dict) and any(item is block for item in _blocks(value))
