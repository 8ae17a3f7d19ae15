"""The folders that travel with the package: `presets` and `schemas`."""

from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """Where a folder is: inside the package once installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
