"""Findings that somebody decided to live with."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconf.cli import main

_TEXT = '{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "disable_allgather": true}'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ds_config.json"
    path.write_text(_TEXT)
    return path


def _codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, set[str], str]:
    status = main(["validate", "--format", "concise", "--fail-on", "warning", *arguments])
    shown = capsys.readouterr()
    return status, {word for word in shown.out.split() if word.startswith("DS") and word[2:].isdigit()}, shown.err


def test_options_choose_rules_by_code_or_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _codes(capsys, str(file))[:2] == (1, {"DS108"})
    assert _codes(capsys, "--ignore", "dead-key", str(file))[:2] == (0, set())
    assert _codes(capsys, "--select", "DS101,DS102", str(file))[:2] == (0, set())
    status, _, complaint = _codes(capsys, "--ignore", "DS1088", str(file))
    assert status == 2 and "there is no rule" in complaint


@pytest.mark.parametrize("name", ["dsconf.toml", "pyproject.toml"])
def test_a_file_of_decisions_silences_by_file_and_place(
    file: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "[[suppress]]" if name == "dsconf.toml" else "[[tool.dsconf.suppress]]"
    entry = f'{table}\nrule = "DS108"\nreason = "kept for the old cluster"\n'
    Path(name).write_text(entry + 'files = "ds_*.json"\npointer = "/disable_allgather"\n')
    assert _codes(capsys, str(file))[:2] == (0, set())
    Path(name).write_text(entry + 'files = "other.json"\n')
    assert _codes(capsys, str(file))[:2] == (1, {"DS108"})


def test_decisions_that_are_stale_or_past_their_date_are_reported(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dsconf.toml").write_text('[[suppress]]\nrule = "DS301"\nreason = "why"\n')
    assert "silences nothing" in _codes(capsys, str(file))[2]
    Path("dsconf.toml").write_text('[[suppress]]\nrule = "DS108"\nreason = "why"\nuntil = 2020-01-31\n')
    status, codes, complaint = _codes(capsys, str(file))
    assert status == 1 and codes == {"DS108"} and "ended on 2020-01-31" in complaint


@pytest.mark.parametrize("text", ["ignored = []", "[[suppress]]\nrule = 'DS108'", "ignore = 3", "x"])
def test_a_file_of_decisions_that_is_wrong_is_refused(
    file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dsconf.toml").write_text(text)
    status, _, complaint = _codes(capsys, str(file))
    assert status == 2 and "dsconf.toml" in complaint


@pytest.mark.parametrize(
    "line",
    [
        "disable_allgather: true # dsconf: ignore DS108 old cluster",
        "// dsconf: ignore dead-key\ndisable_allgather: true",
    ],
)
def test_a_comment_in_the_file_silences_its_line(file: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"train_micro_batch_size_per_gpu: 2\ngradient_clipping: 1.0\n{line}\n")
    assert "DS108" not in _codes(capsys, str(file))[1]


def test_what_is_silenced_is_not_fixed(file: Path) -> None:
    main(["validate", "--fix", "--ignore", "DS108", str(file)])
    assert file.read_text() == _TEXT
    main(["validate", "--fix", str(file)])
    assert "disable_allgather" not in file.read_text()
