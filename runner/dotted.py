"""Things by dotted name: classes and functions of torch, of DeepSpeed and of the user's own modules."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from runner.errors import UsageError


def find(name: str, setting: str) -> Callable[..., Any]:
    """What `name` stands for, to be called. Raises UsageError, which names `setting`."""
    where, _, last = name.rpartition(".")
    try:
        home: Any = importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise UsageError(
                f"error: {setting}: {name} needs the module {error.name}, which is not installed"
            ) from None
        # A class inside a class, or a module that is not there.
        home = find(where, setting) if where.count(".") and error.name == where else None
    if home is None:
        raise UsageError(
            f"error: {setting}: there is no module {where} to take {name} from; your own must be importable from the "
            f"directory where the run is started, or through PYTHONPATH"
        )
    found = getattr(home, last, None)
    if not callable(found):
        near = get_close_matches(last, dir(home), n=1)
        hint = f"; did you mean {where}.{near[0]}?" if near else ""
        raise UsageError(f"error: {setting}: {where} has no {last} that can be called{hint}")
    return found


def bind(name: str, values: Mapping[str, Any], setting: str, *first: str) -> Callable[..., Any]:
    """What `name` stands for, with `values` as its named arguments; it is still to be given those named in `first`.

    Raises UsageError if it takes no such arguments.
    """
    target = find(name, setting)
    _check(target, name, values, setting, len(first))

    def call(*given: Any) -> Any:
        try:
            return target(*given, **values)
        except (TypeError, ValueError) as error:
            raise UsageError(f"error: {setting}: {name} refuses its arguments: {error}") from error

    return call


def _check(target: Callable[..., Any], name: str, values: Mapping[str, Any], setting: str, first: int) -> None:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        # Some functions written in C have none.
        return
    try:
        signature.bind(*[None] * first, **values)
    except TypeError as error:
        takes = list(signature.parameters)[first:]
        raise UsageError(f"error: {setting}: {name}: {error}; it takes {', '.join(takes) or 'none'}") from None
