"""The presets: commented YAML files, each a part of a configuration or the whole of one."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from dsconf.resources import folder

#: The values of all presets, beside this module; `python -m dsconf.schema` writes it.
FILE = "presets.json"


def names() -> list[str]:
    """The names of all presets, in alphabetical order."""
    return sorted(path.stem for path in folder("presets").glob("*.yaml"))


def text(name: str) -> str:
    """The file of a preset, comments included.

    Raises:
        KeyError: there is no preset of that name.
    """
    if name not in names():
        raise KeyError(name)
    return (folder("presets") / f"{name}.yaml").read_text(encoding="utf-8")


def summary(name: str) -> str:
    """The first line of a preset's comment."""
    return text(name).partition("\n")[0].lstrip("# ")


def read(name: str) -> dict[str, Any]:
    """What a preset sets.

    Raises:
        KeyError: there is no preset of that name.
    """
    return copy.deepcopy(_values()[name])


@lru_cache(maxsize=1)
def _values() -> dict[str, Any]:
    return json.loads((Path(__file__).parent / FILE).read_text(encoding="utf-8"))


def generated() -> str:
    """What `presets.json` has to hold: the values of all presets, which are read without YAML."""
    import yaml

    return json.dumps({name: yaml.safe_load(text(name)) for name in names()}, indent=1) + "\n"


def publish() -> None:
    """Write that table."""
    from dsconf.atomic import write_text

    write_text(str(Path(__file__).parent / FILE), generated())
    _values.cache_clear()
