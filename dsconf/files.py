"""Finding DeepSpeed configurations in a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NAME = r"(?i)(^ds_|ds_?config|deepspeed|zero[_-]?[0-3])"
_SUFFIXES = (".json", ".jsonc", ".hjson")
_SKIPPED = ("node_modules", "site-packages", "__pycache__")
_KEYS = rb"""["'\s](zero_optimization|train_micro_batch_size_per_gpu|train_batch_size)["'\s:]"""
_LOOKED_AT = 1 << 16


def configs_in(directory: Path) -> Iterator[Path]:
    """The files under a directory that are DeepSpeed configurations by name or content, in a stable order."""
    from pathlib import Path

    for root, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix.lower() in _SUFFIXES and _is_config(path):
                yield path


def _is_config(path: Path) -> bool:
    if "schema" in path.name.lower():
        return False
    try:
        with path.open("rb") as stream:
            head = stream.read(_LOOKED_AT)
    except OSError:
        return False
    return bool(re.search(_KEYS, head)) or bool(
        re.search(_NAME, path.name) and b"{" in head and b'"$schema"' not in head[:200]
    )


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, to stand behind its name."""
    return (error.strerror or str(error)).lower()
