"""Annotations in words, for people."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from dsconf.blocks import one_of


def literals(annotation: Any) -> tuple[Any, ...]:
    """The words and numbers that an annotation admits."""
    origin = get_origin(annotation)
    if origin is Literal:
        return get_args(annotation)
    if origin in (Annotated, Union, types.UnionType, list):
        args = get_args(annotation)[:1] if origin is Annotated else get_args(annotation)
        return tuple(item for arg in args for item in literals(arg))
    return ()


def only_literals(annotation: Any) -> bool:
    """Whether an annotation admits words and null only, or a list of words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return only_literals(get_args(annotation)[0])
    if origin in (Union, types.UnionType, list):
        return all(only_literals(arg) for arg in get_args(annotation))
    return origin is Literal or annotation is type(None)


def describe(annotation: Any) -> str:
    """An annotation in words: `a whole number or null`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return describe(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        words = dict.fromkeys(describe(arg) for arg in get_args(annotation) if arg is not type(None))
        if "a number" in words:
            words.pop("a whole number", None)
        return " or ".join(words)
    if origin is Literal:
        return one_of(get_args(annotation))
    if origin is list:
        return "a list"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", type(None): "null"}
    return names.get(annotation, "an object")
