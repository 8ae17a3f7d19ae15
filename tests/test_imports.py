"""What the fast paths do not import, so that they stay fast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "deepspeed", "hydra", "omegaconf", "jsonschema", "rich", "typer", "yaml", "numpy"}


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import dsconf", HEAVY | {"pydantic", "argparse"}),
        ("import dsconf.cli; dsconf.cli.main([])", HEAVY | {"pydantic"}),
        ("import dsconf.cli; dsconf.cli.main(['explain', 'DS301'])", HEAVY | {"pydantic"}),
        ("import dsconf.cli; dsconf.cli.main(['explain', 'reduce_bucket_size'])", HEAVY | {"pydantic"}),
        ("import dsconf.cli; dsconf.cli.main(['validate', 'ds_config.json'])", HEAVY | {"pydantic"}),
        ("import dsconf; dsconf.load('ds_config.json')", HEAVY),
        ("import dsconf.cli; dsconf.cli.main(['--version'])", HEAVY | {"argparse", "dataclasses", "typing"}),
    ],
)
def test_fast_paths_leave_heavy_modules_alone(statement: str, unwanted: set[str], tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 1}')
    root = Path(__file__).resolve().parent.parent
    script = f"import sys; sys.path.insert(0, {str(root)!r})\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert not unwanted & {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["explain", "DS301"], ["explain", "stage"]])
def test_what_only_prints_imports_no_rule_and_no_other_command(arguments: list[str]) -> None:
    root = Path(__file__).resolve().parent.parent
    script = f"import sys, dsconf.cli\ntry: dsconf.cli.main({arguments})\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root)
    ours = {name for name in done.stderr.split() if name.startswith("dsconf")}
    command = {"dsconf.page_table", "dsconf.cli.explain"} if arguments[0] == "explain" else set[str]()
    assert ours <= {"dsconf", "dsconf.cli", "dsconf.cli.options"} | command
