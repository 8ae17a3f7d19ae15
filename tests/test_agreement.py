"""dsconf and the real engine agree on configurations that nobody chose, and the comparison tells when they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proof.agree import Case, Judges, recorded
from proof.engine import Engine, Verdict
from proof.sweep import sweep

#: How many configurations, and which.
COUNT, SEED = 60, 2

GOOD: dict[str, Any] = {"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0}
TRAINED = Verdict("done")


@pytest.mark.parametrize("case", list(sweep(COUNT, SEED)), ids=lambda case: case.name)
def test_dsconf_and_the_engine_agree(case: Case, engine: Engine) -> None:
    comparison = Judges(engine).compare(case)
    assert comparison is not None
    assert comparison.outcome not in ("missed", "false alarm"), comparison.why


@pytest.mark.parametrize(
    ("config", "verdict", "outcome"),
    [
        (GOOD, TRAINED, "accepted by both"),
        (GOOD, Verdict("step", "RuntimeError", "something broke"), "missed"),
        (GOOD, Verdict("step", "Hang", hung=True), "missed"),
        (GOOD, Verdict("initialize", "ModuleNotFoundError", "No module named 'wandb'"), "not shown here"),
        ({**GOOD, "train_batch_size": 3}, Verdict("parse", "AssertionError", "Check batch"), "refused by both"),
        ({**GOOD, "train_batch_size": 3}, TRAINED, "false alarm"),
        ({**GOOD, "zero_optimisation": {}}, Verdict("parse", "AssertionError", "no batch"), "noticed"),
        ({**GOOD, "zero_optimisation": {}}, Verdict("done", unread=(("zero_optimisation",),)), "accepted by both"),
        (GOOD, Verdict("done", unread=(("gradient_clipping",),)), "missed"),
    ],
)
def test_an_outcome_follows_from_what_both_say(config: dict[str, Any], verdict: Verdict, outcome: str) -> None:
    judges = Judges(None, known={("ds_config.json", 1): verdict})
    comparison = judges.compare(Case("ds_config.json", json.dumps(config).encode()))
    assert comparison is not None and comparison.outcome == outcome


def test_a_key_called_ignored_that_changes_training_is_a_false_alarm(engine: Engine) -> None:
    config = {**GOOD, "zero_optimization": {"stage": 3, "allgather_bucket_size": 1000}}
    case = Case("ds_config.json", json.dumps(config).encode())
    comparison = Judges(engine, known={("ds_config.json", 1): Verdict("done", weights="others")}).compare(case)
    assert comparison is not None and comparison.outcome == "false alarm"


def test_keys_that_the_engine_never_looks_up_are_in_its_verdict(engine: Engine) -> None:
    config = {**GOOD, "fp61": {"enabled": True}, "aio": {"queue_dept": 8}, "zero_optimization": {"stage": 1}}
    assert engine.run(json.dumps(config)).unread == (("aio", "queue_dept"), ("fp61",))


def test_recorded_verdicts_are_read(tmp_path: Path) -> None:
    lines = [
        {"file": "a.json", "world": 1, "ok": True, "phase": "done", "error": None, "message": "", "unread": ["x.y"]},
        {"file": "b.json", "world": 2, "ok": False, "phase": "init", "error": "E", "message": "m", "unread": ["x"]},
    ]
    file = tmp_path / "verdicts.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert recorded(file) == {
        ("a.json", 1): Verdict("done", unread=(("x", "y"),)),
        ("b.json", 2): Verdict("initialize", "E", "m"),
    }
