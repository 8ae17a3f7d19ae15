"""Reading a trainer's own arguments: JSON or YAML, as people keep them beside a ds_config.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, cast


class TrainingArgsError(ValueError):
    """A file of training arguments that cannot be understood; the text is for people."""


def read_training_args(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a mapping of arguments by their names, such as `{"learning_rate": 5e-5}`.

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
    values = _yaml(text, name) if name.lower().endswith((".yaml", ".yml")) else _json(text, name)
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in cast("dict[Any, Any]", values)):
        raise TrainingArgsError(f"{name}: needs an object of arguments by name, such as learning_rate")
    return cast("dict[str, Any]", values)


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TrainingArgsError(
            f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}; name the file .yaml if it is YAML"
        ) from None
    except (ValueError, RecursionError):
        raise TrainingArgsError(f"{name}: not JSON that can be read") from None


def _yaml(text: str, name: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise TrainingArgsError(f"{name}{place}: not YAML: {error.problem or 'it cannot be read'}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise TrainingArgsError(f"{name}: not YAML that can be read") from None
