"""Notes of which keys of a configuration DeepSpeed looked up while it ran.

DeepSpeed reads a file into dicts; here they are dicts that take notes and otherwise do what dicts do. A block that
becomes a Pydantic object counts as looked up with all that is in it, since such a class refuses what it does not
know.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, KeysView
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"


class Notebook:
    """Where the dicts of one process write down what was looked up. DeepSpeed reads a file several times."""

    def __init__(self) -> None:
        self.open = True
        self._roots: list[NotingDict] = []

    def install(self) -> None:
        """Let DeepSpeed read files into dicts that take notes; for the rest of this process."""
        import deepspeed.runtime.config as config
        from deepspeed.runtime.config_utils import DeepSpeedConfigModel

        read, build = config.dict_raise_error_on_duplicate_keys, DeepSpeedConfigModel.__init__
        log = config.DeepSpeedConfig.print_user_config

        def reading(pairs: list[tuple[str, Any]]) -> NotingDict:
            return self._new(read(pairs))

        def building(model: Any, strict: bool = False, **data: Any) -> None:
            for value in data.values():
                _look_through(value)
            build(model, strict, **data)

        def logging(whole: Any) -> None:
            # To print everything is not to use it.
            self.open = False
            log(whole)
            self.open = True

        config.dict_raise_error_on_duplicate_keys = reading
        # Older releases read a file in one place.
        with suppress(ImportError):
            again = import_module("deepspeed.runtime.tensor_parallel.init_utils")
            again.dict_raise_error_on_duplicate_keys = reading
        config.DeepSpeedConfig.print_user_config = logging
        DeepSpeedConfigModel.__init__ = building

    def unread(self) -> tuple[Path, ...]:
        """The keys that stand in the file and were looked up in none of its readings, outermost only."""
        if not self._roots:
            return ()
        first, *others = [set(_unread(root, ())) for root in self._roots]
        never = first.intersection(*others)
        return tuple(sorted((path for path in never if path[:-1] not in never), key=repr))

    def _new(self, values: dict[str, Any]) -> NotingDict:
        block = NotingDict(values)
        block.book, block.looked_up = self, set()
        inner = [id(item) for item in _blocks(values)]
        self._roots = [root for root in self._roots if id(root) not in inner] + [block]
        return block


class NotingDict(dict[str, Any]):
    """A dict that notes which of its keys are looked up; its copies write to the same notes."""

    book: Notebook
    looked_up: set[str]

    def note(self, key: Any) -> None:
        if self.book.open:
            self.looked_up.add(key)

    def __getitem__(self, key: str) -> Any:
        self.note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.note(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self.note(key)
            yield key

    def get(self, key: str, default: Any = None) -> Any:
        self.note(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self.note(key)
        return super().pop(key, *default)

    def keys(self) -> Any:
        return KeysView(self)

    def items(self) -> Any:
        return [(key, self[key]) for key in super().__iter__()]

    def values(self) -> Any:
        return [self[key] for key in super().__iter__()]

    def copy(self) -> NotingDict:
        return self.__copy__()

    def __copy__(self) -> NotingDict:
        return self._like(dict(super().items()))

    def __deepcopy__(self, memo: dict[int, Any]) -> NotingDict:
        return self._like({key: copy.deepcopy(value, memo) for key, value in super().items()})

    def __reduce__(self) -> Any:
        return dict, (dict(super().items()),)

    def _like(self, values: dict[str, Any]) -> NotingDict:
        twin = NotingDict(values)
        twin.book, twin.looked_up = self.book, self.looked_up
        return twin


def _blocks(value: Any) -> Iterator[NotingDict]:
    """The noting dicts in a value, itself included, without looking anything up."""
    if isinstance(value, NotingDict):
        yield value
    inner = dict.values(value) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for item in inner:
        yield from _blocks(item)


def _look_through(value: Any) -> None:
    for block in _blocks(value):
        for key in dict.keys(block):
            block.note(key)


def _unread(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, NotingDict):
        for key, item in dict.items(value):
            if key in value.looked_up:
                yield from _unread(item, (*path, key))
            else:
                yield (*path, key)
                yield from _all_in(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unread(item, (*path, index))


def _all_in(value: Any, path: Path) -> Iterator[Path]:
    """Everything below a key that was not looked up."""
    items = dict.items(value) if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _all_in(item, (*path, key))
