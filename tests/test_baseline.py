"""Findings that were there before, and those that are new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconf.cli import main

_OLD = {"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "disable_allgather": True}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "configs" / "ds_config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(_OLD))
    assert main(["validate", "--write-baseline", "baseline.json", "configs"]) == 0
    return path


def _codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    capsys.readouterr()
    status = main(["validate", "--format", "concise", "--fail-on", "warning", *arguments])
    shown = capsys.readouterr()
    return status, [word for word in shown.out.split() if word.startswith("DS") and word[2:].isdigit()], shown.err


def test_only_new_findings_are_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _codes(capsys, "configs")[:2] == (1, ["DS108"])
    assert _codes(capsys, "--baseline", "baseline.json", "configs") == (0, [], "")
    file.write_text(json.dumps({**_OLD, "zero_optimisation": {}}))
    assert _codes(capsys, "--baseline", "baseline.json", "configs")[:2] == (1, ["DS101"])


def test_a_baseline_holds_wherever_one_stands(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert _codes(capsys, "--baseline", "../baseline.json", "ds_config.json") == (0, [], "")


def test_findings_that_are_gone_are_reported_for_the_files_looked_at(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0}')
    status, codes, complaint = _codes(capsys, "--baseline", "baseline.json", "configs")
    assert (status, codes) == (0, [])
    assert "DS108 at /disable_allgather of configs/ds_config.json is no longer found" in complaint
    Path("other.json").write_text('{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0}')
    assert _codes(capsys, "--baseline", "baseline.json", "other.json") == (0, [], "")


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 2, "findings": []}', '{"format_version": 1}'])
def test_a_file_that_is_no_baseline_is_refused(text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("baseline.json").write_text(text)
    status, _, complaint = _codes(capsys, "--baseline", "baseline.json", "configs")
    assert status == 2 and "write" in complaint


def test_a_baseline_that_is_not_there_is_not_made_up(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _codes(capsys, "--baseline", "nowhere.json", "configs")[0] == 2
    assert not Path("nowhere.json").exists()
    assert _codes(capsys, "--baseline", "a.json", "--write-baseline", "b.json", "configs")[0] == 2
