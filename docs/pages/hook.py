"""What mkdocs calls: it adds the generated pages and the published schemas to the site."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from docs.pages import blocks, commands, rules  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every block in the navigation; rules are too many, they have a table."""
    for section in config.nav or []:
        if "Configuration" in section:
            section["Configuration"] += blocks.names()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made from the code."""
    for module in (rules, blocks, commands):
        for name, text in module.pages().items():
            files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "schemas").rglob("*.json")):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files
