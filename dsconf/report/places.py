"""File names as other programs want them."""

from __future__ import annotations

import os
from pathlib import Path


def in_repository(filename: str) -> str:
    """A file name relative to the repository (or else the working directory), with slashes; absolute if outside."""
    if filename == "<stdin>":
        return filename
    whole = Path(os.path.abspath(filename))
    for root in (os.environ.get("GITHUB_WORKSPACE"), os.getcwd()):
        if root and whole.is_relative_to(os.path.abspath(root)):
            return whole.relative_to(os.path.abspath(root)).as_posix()
    return whole.as_posix()
