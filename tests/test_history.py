"""What each DeepSpeed release says, as it was read from that release, and how another one is added."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

from dsconf.rules.rule import DEEPSPEED
from proof import history
from proof.facts import Facts, facts_of
from proof.history import add, decisions, differences, reaction


@pytest.fixture(scope="module")
def every() -> dict[str, Facts]:
    return {facts["release"]: facts for facts in history.history()}


def test_the_newest_facts_are_those_of_the_installed_release(every: dict[str, Facts]) -> None:
    assert list(every)[-1] == DEEPSPEED
    assert every[DEEPSPEED] == facts_of()
    assert not list(decisions(every[DEEPSPEED]))


def test_the_table_comes_from_the_history_alone(every: dict[str, Facts]) -> None:
    assert history.TABLE.read_text(encoding="utf-8") == history.text(list(every.values()))


def test_the_differences_of_two_releases_are_printed(every: dict[str, Facts]) -> None:
    lines = list(differences(every["0.17.2"], every["0.17.6"]))
    assert "new optimizer muon" in lines
    assert "zero_optimization.zenflow is read with Pydantic 2" in lines
    assert 'new key zero_optimization.zenflow.overlap_step: type ["bool"], default false' in lines
    lines = list(differences(every["0.19.2"], every["0.19.3"]))
    assert "gradient_clipping: default was 0.0, is 1.0" in lines
    lines = list(differences(every["0.19.7"], every["0.19.8"]))
    assert "amp is refused by name" in lines


def test_a_release_does_with_a_key_what_its_blocks_do(every: dict[str, Facts]) -> None:
    old = every["0.14.5"]
    assert reaction(old, "zero_optimization.stage") == "read"
    assert reaction(old, "zero_optimization.zenflow.overlap_step") == "refused"
    assert reaction(old, "torch_autocast.enabled") == "ignored"
    assert reaction(every[DEEPSPEED], "amp") == "refused"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history that ends with 0.17.2."""
    for release in [*(file.stem for file in history.FOLDER.glob("*.json"))]:
        if history.number(release) <= (0, 17, 2):
            shutil.copy(history.FOLDER / f"{release}.json", tmp_path)
    monkeypatch.setattr(history, "FOLDER", tmp_path)
    monkeypatch.setattr(history, "TABLE", tmp_path / "releases" / "table.json")
    return tmp_path


def test_adding_a_release_writes_what_it_says_otherwise(every: dict[str, Facts], folder: Path) -> None:
    committed = Path(history.__file__).parent / "history" / "0.17.6.json"
    found = add(every["0.17.6"])
    assert found.differences and not found.decisions
    assert (folder / "0.17.6.json").read_text() == committed.read_text()
    assert "muon" in (folder / "releases" / "table.json").read_text()


def test_a_release_newer_than_the_models_waits_for_a_person(every: dict[str, Facts], folder: Path) -> None:
    newer = copy.deepcopy(every[DEEPSPEED])
    newer["release"] = "99.0.0"
    newer["keys"]["zero_optimization.stage4"] = {"type": ["bool"], "default": False}
    del newer["keys"]["gradient_clipping"]
    newer["keys"]["steps_per_print"]["default"] = 7
    found = add(newer)
    assert "zero_optimization.stage4 is new: describe it in dsconf/models" in found.decisions
    assert "gradient_clipping is ignored: retire it in dsconf/models" in found.decisions
    assert any(line.startswith("steps_per_print has the default 7") for line in found.decisions)
    assert not (folder / "99.0.0.json").exists() and not (folder / "releases").exists()
