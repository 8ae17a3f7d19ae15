"""Judging a file for other DeepSpeed releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconf.blocks import block_type, walk
from dsconf.check import check
from dsconf.cli import main
from dsconf.diagnostic import Diagnostic
from dsconf.releases import ReleaseError, later, number, parse, releases, removed_in
from dsconf.rules.rule import COMPLETION, DEEPSPEED, Context
from dsconf.source import read_text


def _found(values: dict[str, Any], release: str) -> tuple[Diagnostic, ...]:
    text = json.dumps({**COMPLETION, **values})
    return check(read_text(text, "ds_config.json"), Context(deepspeed=parse(release))).diagnostics


@pytest.mark.parametrize(
    ("values", "release", "code", "effect"),
    [
        ({"elasticity": {"enabled": False}}, "0.19.8", "DS104", "refused"),
        ({"elasticity": {"enabled": False}}, "0.19.7", None, None),
        ({"nebula": None}, "0.19.7", "DS104", "refused"),
        ({"nebula": None}, "0.19.6", None, None),
        ({"torch_autocast": {"enabled": True}}, "0.17.1", "DS111", "ignored"),
        ({"torch_autocast": {"enabled": True}}, "0.17.2", None, None),
        ({"bf16": {"enabled": True, "check_grad_overflow": True}, "zero_optimization": {"stage": 1}}, "0.17.0", "DS111", "ignored"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 100.5}}, "0.14.5", "DS112", "coerced"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 100.5}}, "0.15.0", "DS201", "refused"),
        ({"bf16": {"enabled": True}}, "0.17.2", "DS113", "refused"),
        ({"bf16": {"enabled": True}}, "0.18.0", None, None),
    ],
)  # fmt: skip
def test_a_verdict_is_that_of_the_release(values: dict[str, Any], release: str, code: str, effect: str) -> None:
    found = {item.code: item.effect for item in _found(values, release) if item.severity != "info"}
    assert found == ({code: effect} if code else {})


def test_a_range_says_for_which_releases_a_finding_holds() -> None:
    (finding,) = _found({"amp": {"enabled": False}}, "0.18..0.19")
    assert finding.code == "DS104" and finding.message.endswith("(DeepSpeed 0.19.8)")
    (finding,) = _found({"gradient_allreduce_op": "sum"}, "0.19.4..0.19.8")
    assert finding.message.endswith("(DeepSpeed 0.19.4 to 0.19.5)")


def test_releases_are_named_in_several_ways() -> None:
    assert parse("0.14.4") == ("0.14.2",)
    assert parse("0.14") == ("0.14.5",)
    assert parse("0.19.6..0.19") == ("0.19.6", "0.19.7", "0.19.8")
    assert parse("installed") == (DEEPSPEED,)


@pytest.mark.parametrize("text", ["new", "0.8.3", "1.0", "0.19..0.12"])
def test_a_text_that_names_no_release_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError):
        parse(text)
    assert main(["validate", "--deepspeed", text, str(tmp_path)]) == 2


def test_the_data_speak_of_keys_that_the_models_know() -> None:
    known = {path for path, _, _ in walk(block_type())}
    oldest, newest = releases()[0], releases()[-1]
    assert newest == DEEPSPEED
    assert list(releases()) == sorted(releases(), key=number)
    assert any(later(path, oldest) for path in known)
    assert not any(later(path, newest) for path in known)
    root = block_type()
    gone = {item.key for item in root.retired if item.status == "removed"}
    assert all(removed_in((name,)) for name in gone)


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        ({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 9, "warmup_num_steps": 2}}}, "0.12.6", "0.19.8"),
        ({"fp16": {"enabled": True, "opt_level": "O1"}}, "0.9.5", "0.17.0"),
        ({"zero_optimization": {"stage": "2"}}, "0.15.0", "0.19.8"),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}, "0.12.6", "0.14.5"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 10.5}}, "0.9.5", "0.14.5"),
        ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 0.001}}}, "0.9.5", "0.19.6"),
        ({"seq_parallel_comm_data_type": "fp32"}, "0.9.5", "0.19.8"),
    ],
)  # fmt: skip
def test_what_a_release_takes_others_refuse(values: dict[str, Any], first: str, last: str) -> None:
    takes = [release for release in releases() if not any(item.effect == "refused" for item in _found(values, release))]
    every = list(releases())
    assert takes == every[every.index(first) : every.index(last) + 1]


def test_a_key_that_only_older_releases_read_is_known_for_them() -> None:
    assert [item.code for item in _found({"seq_parallel_comm_data_type": "fp32"}, "0.14.5")] == []
    assert [item.code for item in _found({"seq_parallel_comm_data_type": "fp32"}, "0.19.8")] == ["DS101"]


def test_a_value_that_only_later_releases_check_when_reading_fails_later_before() -> None:
    values = {"zero_optimization": {"stage": 2, "reduce_bucket_size": 0}}
    assert [item.phase for item in _found(values, "0.19.5")] == ["step"]
    assert [item.phase for item in _found(values, "0.19.6")] == ["parse"]


def test_pages_say_which_releases_a_key_and_a_rule_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "zero_optimization.zenflow"]) == 0
    assert "releases   refused until 0.17.2, read since 0.17.6" in capsys.readouterr().out
    assert main(["explain", "gradient_clipping"]) == 0
    assert "defaults   0.0 until 0.19.2, 1.0 since 0.19.3" in capsys.readouterr().out
    assert main(["explain", "zero_optimization.reduce_bucket_size"]) == 0
    assert "ranges     at least 0 until 0.19.5, more than 0 since 0.19.6" in capsys.readouterr().out
    assert main(["explain", "DS113"]) == 0
    assert "releases   0.17.1 to 0.17.6" in capsys.readouterr().out
