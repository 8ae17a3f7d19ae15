"""The presets: commented YAML files, each a part of a configuration or the whole of one."""

from __future__ import annotations

from typing import Any

from dsconf.resources import folder


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
    import yaml

    return yaml.safe_load(text(name))
