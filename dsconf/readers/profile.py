"""The record of what one reader does with the file, and the reader's own arguments that decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast


class Arguments(NamedTuple):
    """A reader's own arguments: those that somebody gave, and the reader's defaults for the rest."""

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    world_size: int | None = None

    def given(self, *names: str) -> bool:
        """Whether somebody gave one of them."""
        return any(name in self.values for name in names)

    def get(self, name: str) -> Any:
        """The value; a text that holds a number (YAML takes `5e-5` for text) counts as that number."""
        value, default = self.values.get(name, self.defaults.get(name)), self.defaults.get(name)
        if isinstance(value, str) and isinstance(default, (int, float)) and not isinstance(default, bool):
            try:
                value = float(value)
            except ValueError:
                return value
            return int(value) if isinstance(default, int) and value.is_integer() else value
        return value

    def number(self, name: str) -> int | float | None:
        """The value if it is a number."""
        value = self.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def whole(self, name: str) -> int | None:
        """The value if it is a whole number that a trainer can count to."""
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


#: What a key becomes under given arguments; None when they do not tell.
Value = Callable[[Arguments], Any]


class Key(NamedTuple):
    """What a reader does with one key of the file.

    `becomes`: the value that the reader has for it, in words. `fills`: it takes the place of "auto". `adds`: it is
    written where the file has no such key. `arguments`: the reader's own arguments that the value comes from, `value`
    what they come to. `conflict`: what happens to a value in the file that differs, `refused` (the reader raises),
    `kept` (the file wins and the argument is lost) or None (nobody compares). `absent`: what holds when the file has
    no such key and the reader does not add it; None: the default of DeepSpeed. `needs`: keys at the top level
    without which "auto" is not filled.
    """

    path: tuple[str, ...]
    becomes: str
    fills: bool = True
    adds: bool = False
    arguments: tuple[str, ...] = ()
    value: Value | None = None
    conflict: Literal["refused", "kept"] | None = None
    absent: Any = None
    needs: tuple[str, ...] = ()


class Setting(NamedTuple):
    """An argument of a reader that becomes a key of the file that the reader makes when nobody gives it one.

    `default`: of the argument. `switch`: another argument, without which this one has no effect.
    """

    argument: str
    path: tuple[str, ...]
    default: Any = None
    switch: str = ""


class Note(NamedTuple):
    """Something that a reader does at a key, in words."""

    path: tuple[str, ...]
    words: str


class Profile(NamedTuple):
    """What one reader does with the file.

    `name`, `version`: as people know it, and the release that this was seen in. `keys`: the keys that it fills, adds or
    compares. `auto`: what becomes of any other "auto", `refused` or `passed` on to DeepSpeed. `needs_zero`: whether
    `zero_optimization` must be there, as an object. `refuses`: keys that it refuses whatever their value. `overrides`:
    keys that it writes over. `drops`: keys that it does not pass on. `script_optimizer`: what an `optimizer` in the
    file means for the one in the script. `defaults`: of its own arguments. `section`: the part of a file of arguments
    that holds them, where they may be in one. `settings`: the arguments that make a file of their own.
    """

    name: str
    version: str
    keys: tuple[Key, ...]
    auto: Literal["refused", "passed"]
    needs_zero: bool
    refuses: tuple[Note, ...] = ()
    overrides: tuple[Note, ...] = ()
    drops: tuple[Note, ...] = ()
    script_optimizer: str = ""
    defaults: Mapping[str, Any] = MappingProxyType({})
    section: str = ""
    settings: tuple[Setting, ...] = ()

    def key(self, path: tuple[str | int, ...]) -> Key | None:
        """What the reader does with the key at a path."""
        return next((item for item in self.keys if item.path == path), None)

    def read(self, values: Mapping[str, Any], world_size: int | None = None) -> Arguments:
        """The reader's arguments in a mapping that holds them, on their own or in a section."""
        inner = values.get(self.section) if self.section else None
        merged = {**values, **cast("Mapping[str, Any]", inner)} if isinstance(inner, Mapping) else values
        return Arguments(merged, self.defaults, world_size)


def key(path: str, becomes: str, **more: Any) -> Key:
    """A `Key` at a dotted path."""
    return Key(tuple(path.split(".")), becomes, **more)


def setting(argument: str, path: str, default: Any = None, switch: str = "") -> Setting:
    """A `Setting` at a dotted path."""
    return Setting(argument, tuple(path.split(".")), default, switch)


def note(path: str, words: str) -> Note:
    """A `Note` at a dotted path."""
    return Note(tuple(path.split(".")), words)


def same(name: str) -> Value:
    """The value of one argument, as it is."""
    return lambda arguments: arguments.get(name)


def always(value: Any) -> Value:
    """The same value, whatever the arguments."""
    return lambda arguments: value


#: Filled from the hidden size of the model, by Transformers and by Accelerate alike.
HIDDEN_SIZE_KEYS: tuple[Key, ...] = (
    key("zero_optimization.reduce_bucket_size", "the square of the model's hidden size"),
    key("zero_optimization.stage3_prefetch_bucket_size", "0.9 times the square of the model's hidden size"),
    key("zero_optimization.stage3_param_persistence_threshold", "10 times the model's hidden size"),
)

#: Filled from the settings of `accelerate launch`, for Transformers too.
LAUNCHER_KEYS: tuple[Key, ...] = (
    key("zero_optimization.stage", "the stage given to `accelerate launch`, or 2"),
    key("zero_optimization.offload_optimizer.device", "the device given to `accelerate launch`, or none"),
    key("zero_optimization.offload_optimizer.nvme_path", "the text none"),
    key("zero_optimization.offload_param.device", "the device given to `accelerate launch`, or none"),
    key("zero_optimization.offload_param.nvme_path", "the text none"),
    key("zero_optimization.stage3_gather_16bit_weights_on_model_save", "false unless `accelerate launch` says true"),
)
