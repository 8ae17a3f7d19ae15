"""What a configuration comes to under DeepSpeed itself, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dsconf.diagnostic import Path
from dsconf.resolve import Setting, resolve
from dsconf.source import Document, Object, from_python


def settings(values: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Every setting in effect; "auto" stays what it is."""
    return resolve(Document("", "", cast(Object, from_python(values)), (), ()))


def effective(values: Mapping[str, Any]) -> dict[Path, Any]:
    """The same by path."""
    return {item.path: item.value for item in settings(values)}
