"""Fixing a file by the remedies that its findings carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconf.cli import main
from dsconf.fix import ChangedError, fix, write_back
from dsconf.rules import RULES
from dsconf.rules.rule import Rule
from dsconf.source import read_file, read_text


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_fixed_file_has_none_of_the_fixed_findings_and_stays_as_it_is(rule: Rule, unsafe: bool) -> None:
    document = read_text(rule.example("bad"), "ds_config.json")
    outcome = fix(document, rule.context, unsafe=unsafe)
    left = {(item.code, item.path) for item in outcome.diagnostics}
    assert not left & {(item.code, item.path) for item in outcome.applied}
    assert not [item for item in outcome.diagnostics if item.fix and (item.fix.safe or unsafe)]
    assert fix(outcome.document, rule.context, unsafe=unsafe).document.text == outcome.document.text
    if not outcome.applied:
        assert outcome.document.text == document.text


_FILE = """\
{
  // tuned by hand
  train_micro_batch_size_per_gpu: 2
  gradient_acumulation_steps: 8   # eight
  gradient_clipping: 1.0
  zero_optimization: {
    stage: 2,
    "cpu_offload": true,
    "reduce_bucket_size": "500000000"
  }
}
""".replace("\n", "\r\n")

_FIXED = """\
{
  // tuned by hand
  train_micro_batch_size_per_gpu: 2
  gradient_accumulation_steps: 8   # eight
  gradient_clipping: 1.0
  zero_optimization: {
    stage: 2,
    "offload_optimizer": {
      "device": "cpu"
    },
    "reduce_bucket_size": 500000000
  }
}
""".replace("\n", "\r\n")


def _main(*arguments: str) -> int:
    return main(["validate", "--fail-on", "never", *arguments])


def test_fix_writes_the_file_and_keeps_the_rest_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ds_config.json"
    file.write_bytes(_FILE.encode())
    assert _main("--fix", str(file)) == 0
    assert file.read_bytes() == _FIXED.encode()
    assert "3 problems fixed" in capsys.readouterr().err


def test_diff_shows_the_patch_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ds_config.json"
    file.write_bytes(_FILE.encode())
    assert _main("--diff", str(file)) == 0
    shown = capsys.readouterr().out
    assert '-    "reduce_bucket_size": "500000000"' in shown and '+    "reduce_bucket_size": 500000000' in shown
    assert file.read_bytes() == _FILE.encode()


def test_unsafe_fixes_are_carried_out_only_when_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "ds_config.json"
    text = '{"train_micro_batch_size_per_gpu": 2, "amp": {"enabled": false}}'
    file.write_text(text)
    _main("--fix", str(file))
    assert file.read_text() == text
    _main("--fix", "--unsafe-fixes", str(file))
    assert file.read_text() == '{"train_micro_batch_size_per_gpu": 2}'
    assert _main("--unsafe-fixes", str(file)) == 2


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "ds_config.json"
    file.write_text('{"a": ')
    _main("--fix", str(file))
    assert file.read_text() == '{"a": '


def test_a_file_that_somebody_else_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "ds_config.json"
    file.write_text('{"gradient_acumulation_steps": 8}')
    before = read_file(file)
    after = fix(before).document
    file.write_text('{"gradient_acumulation_steps": 16}')
    with pytest.raises(ChangedError, match="in the meantime"):
        write_back(before, after)
    assert file.read_text() == '{"gradient_acumulation_steps": 16}'
    write_back(read_file(file), after)
    assert file.read_text() == after.text
