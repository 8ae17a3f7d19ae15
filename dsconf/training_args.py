"""Reading a trainer's own arguments: JSON or YAML, as people keep them beside a ds_config.json."""

from __future__ import annotations

import json
import os

from dsconf.source import Array, Document, Node, Object, read_text


class TrainingArgsError(ValueError):
    """A file of training arguments that cannot be understood; the text is for people."""


def read_training_args(path: str | os.PathLike[str]) -> Document:
    """Read a mapping of arguments by their names, such as `{"learning_rate": 5e-5}`; it has a root.

    Raises:
        TrainingArgsError: the file is neither JSON nor YAML, or does not hold a mapping.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TrainingArgsError(f"{name}: not UTF-8 text; write the arguments as JSON or YAML") from None
    return _yaml(text, name) if name.lower().endswith((".yaml", ".yml")) else _json(text, name)


def _json(text: str, name: str) -> Document:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise TrainingArgsError(
            f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}; name the file .yaml if it is YAML"
        ) from None
    except (ValueError, RecursionError):
        raise TrainingArgsError(f"{name}: not JSON that can be read") from None
    if not isinstance(values, dict):
        raise TrainingArgsError(f"{name}: needs an object of arguments by name, such as learning_rate")
    # Hjson is what JSON is a part of, except for objects without any member.
    document = read_text(text, name)
    if document.root is None and values:
        raise TrainingArgsError(f"{name}: {document.faults[0].message}")
    return document.with_root(_exact_object(document.root) if document.root else Object((), None))


def _exact_object(node: Object) -> Object:
    """Numbers as JSON has them: Hjson takes 2.0 for a whole number."""
    return Object(tuple(item._replace(value=_exactly(item.value)) for item in node.members), node.span)


def _exactly(node: Node) -> Node:
    if isinstance(node, Object):
        return _exact_object(node)
    if isinstance(node, Array):
        return node._replace(items=tuple(map(_exactly, node.items)))
    return node._replace(value=json.loads(node.text))


def _yaml(text: str, name: str) -> Document:
    from dsconf.source.yaml_tree import YamlError, read_yaml

    try:
        return read_yaml(text, name)
    except YamlError as error:
        place = ":{}:{}".format(*error.position) if error.position else ""
        raise TrainingArgsError(f"{name}{place}: {error}") from None
