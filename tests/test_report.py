"""What programs and CI servers are given: every format, checked against its own standard."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import jsonschema
import pytest
import yaml

from dsconf.check import check
from dsconf.edits import apply
from dsconf.rules import RULES
from dsconf.schema import committed
from dsconf.source import read_text
from dsconf.testing import assert_valid, configs_in
from tests.conftest import Cli

ROOT = Path(__file__).resolve().parent.parent
BROKEN = """{
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "allgather_bucket_size": 500000000, "algather": 1, "alltogether": 1},
  "gradient_clipping": -1
}
"""
GOOD = '{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A warning before errors, a clean file, odd names, and a file that cannot be read as a configuration."""
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "a_ds_config.json").write_text('{"train_batch_size": 1, "gradient_clipping": -1}')
    (configs / "b,c 100%: ds_config.json").write_text(BROKEN)
    (configs / "ds_clean.json").write_text(GOOD)
    (configs / "ds_half.json").write_text('{"zero_optimization": {')
    return configs


def test_sarif_fits_its_schema_and_what_code_scanning_asks_for(cli: Cli, folder: Path) -> None:
    done = cli("validate", "--format", "sarif", "configs")
    assert done.returncode == 1
    log = json.loads(done.stdout)
    schema = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for item in run["results"]:
        assert rules[item["ruleIndex"]]["id"] == item["ruleId"]
        place = item["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].startswith("configs/") and " " not in place["artifactLocation"]["uri"]
        assert {"startLine", "startColumn", "endLine", "endColumn"} == set(place["region"])
    for item in rules:
        assert 0 < len(item["shortDescription"]["text"]) <= 1024 and 0 < len(item["fullDescription"]["text"]) <= 1024
        assert item["help"]["text"] and item["helpUri"].startswith("https://")
    places = [
        (item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], item["partialFingerprints"]["dsconf/v1"])
        for item in run["results"]
    ]
    assert len(set(places)) == len(places)


FIXABLE = """\
{
  // batch
  "train_batch_size": 8, "gradient_cliping": 1.0,
  "bf16": {"enabled": "true"},
  "overlap_comm": true,
  "zero_optimization": {"stage": 3, "allgather_bucket_size": 5e8}
}
"""


@pytest.mark.parametrize("text", [FIXABLE, FIXABLE.replace("\n", "\r\n"), FIXABLE.replace("batch", "\N{ROCKET} batch")])
def test_the_fixes_in_sarif_do_to_the_text_what_dsconf_does(cli: Cli, tmp_path: Path, text: str) -> None:
    (tmp_path / "ds_config.json").write_bytes(text.encode())
    log = json.loads(cli("validate", "--format", "sarif", "ds_config.json").stdout)
    schema = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema).validate(log)
    document = read_text(text, "ds_config.json")
    found = {(item.code, item.pointer or "/"): item for item in check(document).diagnostics if item.fix}
    fixed = [item for item in log["runs"][0]["results"] if "fixes" in item]
    assert len(fixed) >= 4
    for result in fixed:
        (place,) = result["locations"][0]["logicalLocations"]
        item = found[result["ruleId"], place["fullyQualifiedName"]]
        (change,) = result["fixes"][0]["artifactChanges"]
        assert change["artifactLocation"]["uri"] == "ds_config.json"
        assert replaced(text, change["replacements"]) == apply(document, item.fix.edits).text


def replaced(text: str, changes: list[dict[str, Any]]) -> str:
    """A text with SARIF's replacements carried out, the last one first."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:index])) for index in range(len(lines) + 1)]
    for change in reversed(changes):
        region = change["deletedRegion"]
        start = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + change["insertedContent"]["text"] + text[end:]
    return text


def test_sarif_of_clean_files_has_an_empty_list_of_results(cli: Cli) -> None:
    log = json.loads(cli("validate", "--format", "sarif", "-", stdin=GOOD.encode()).stdout)
    assert log["runs"][0]["results"] == [] and log["runs"][0]["tool"]["driver"]["rules"] == []


def test_every_rule_has_a_description_short_enough_for_code_scanning() -> None:
    assert [rule.code for rule in RULES if max(len(rule.summary), len(rule.explanation)) > 1024] == []


def test_fingerprints_stay_while_lines_move(cli: Cli) -> None:
    def marks(text: str) -> list[str]:
        report = json.loads(cli("validate", "--format", "json", "-", stdin=text.encode()).stdout)
        return [item["fingerprint"] for item in report["diagnostics"]]

    assert marks(BROKEN) == marks("\n\n" + BROKEN.replace("{\n", "{\n\n", 1)) and len(set(marks(BROKEN))) == len(
        marks(BROKEN)
    )


def test_json_and_its_lines_fit_the_published_schema(cli: Cli, folder: Path) -> None:
    schema = json.loads(committed("report"))
    report = json.loads(cli("validate", "--format", "json", "configs").stdout)
    jsonschema.Draft7Validator(schema).validate(report)
    lines = [json.loads(line) for line in cli("validate", "--format", "jsonl", "configs").stdout.splitlines()]
    assert lines == report["diagnostics"]
    assert set(report) == set(schema["properties"]) and set(lines[0]) == set(
        schema["definitions"]["DiagnosticRecord"]["properties"]
    )


def test_github_annotates_errors_first_and_escapes_what_its_log_would_take_for_its_own(cli: Cli, folder: Path) -> None:
    *lines, last = cli("validate", "--format", "github", "configs").stdout.splitlines()
    levels = [re.match(r"::(\w+) ", line)[1] for line in lines]  # pyright: ignore
    assert levels == sorted(levels) and {"error", "warning"} == set(levels)
    assert last.startswith("4 files: ")
    odd = [line for line in lines if "100%" in line.split("::")[1]]
    assert odd and all("file=configs/b%2Cc 100%25%3A ds_config.json,line=" in line for line in odd)
    assert any("%0Ahelp: " in line for line in lines)
    assert (
        "notice" in cli("validate", "--format", "github", "--show-info", "-", stdin=b'{"train_batch_size": 1}').stdout
    )


def test_github_names_files_from_the_root_of_the_repository(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = cli("validate", "--format", "github", "configs", GITHUB_WORKSPACE=str(tmp_path.parent))
    assert f"file={tmp_path.name}/configs/ds_half.json," in done.stdout


@pytest.mark.parametrize(("level", "failures"), [("error", 0), ("warning", 1), ("info", 1)])
def test_junit_fails_what_fails_the_command(cli: Cli, folder: Path, level: str, failures: int) -> None:
    done = cli("validate", "--format", "junit", "--fail-on", level, "configs/a_ds_config.json", "configs/ds_clean.json")
    first, second = fromstring(done.stdout)
    assert first.get("failures") == str(failures) and done.returncode == (1 if failures else 0)
    assert second.get("failures") == "0" and [case.get("name") for case in second] == ["valid"]


def test_junit_is_xml_whatever_a_file_holds(cli: Cli) -> None:
    done = cli("validate", "--format", "junit", "-", stdin=b'{"\\u0000<&\\"\\u001b": 1, "\\ud83d\\ude00": "\\ufffe"}')
    assert len(fromstring(done.stdout)[0]) >= 2


def test_standard_input_can_be_named(cli: Cli) -> None:
    done = cli("validate", "--format", "concise", "--stdin-filename", "configs/ds.json", "-", stdin=BROKEN.encode())
    assert done.stdout.startswith("configs/ds.json:")


REAL_NAMES = [
    "ds_config.json", "configs/ds_config_zero3.json", "ds_config_gpt_zero2.json", "ds_zero2_no_offload.json", "ds_z3_offload_config.json",
    "deepspeed.json", "deepspeed_config.json", "config/deepspeed/zero3.json", "deepspeed_configs/zero2.json", "scripts/zero3.json",
    "zero2.json", "zero3_offload.json", "my_ds_config.json", "train/dsconfig.json", "DS_Config.JSON", "examples/deepspeed/ds_config.hjson",
    "configs/ds/z2.json", "ds_config.jsonc", "llama2-deepspeed-stage3.json", "ds-config.json", "zero_stage1.json", "ds_configs/stage2.json",
]  # fmt: skip
OTHER_NAMES = [
    "package.json", "tsconfig.json", "config.json", "deepspeed/package.json", "ds_config.py", "ds_config.json.bak", "README.md",
    "schemas/ds_config.schema.json", "src/deepspeed/runtime/zero/config.py", "tokenizer.json", "zerotier.json", "ads_configuration/a.json", "accelerate.yaml",
]  # fmt: skip


@pytest.fixture(scope="module", params=["dsconf", "dsconf-fix"])
def hook(request: pytest.FixtureRequest) -> Any:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = [item for item in hooks if item["id"] == request.param]
    return hook


@pytest.mark.parametrize(
    ("name", "taken"), [(name, True) for name in REAL_NAMES] + [(name, False) for name in OTHER_NAMES]
)
def test_the_pre_commit_hook_takes_real_names_and_leaves_others(hook: Any, name: str, taken: bool) -> None:
    assert bool(re.search(hook["files"], name) and not re.search(hook["exclude"], name)) is taken


def test_the_pre_commit_hook_runs_what_there_is(hook: Any, cli: Cli, folder: Path) -> None:
    program, *arguments = hook["entry"].split()
    assert program == "dsconf"
    assert cli(*arguments, "configs/ds_clean.json").returncode == 0
    assert cli(*arguments, "configs/ds_half.json", "configs/ds_clean.json").returncode == 1


def test_the_action_runs_what_there_is(folder: Path, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][-1]["run"]
    # In place of an installation there is a `dsconf` that writes down how it is called.
    tools = tmp_path / "dsconf" / "bin"
    tools.mkdir(parents=True)
    for name, lines in (("python", "exit 0"), ("dsconf", 'printf "<%s>" "$@" >> "$CALLS"; echo >> "$CALLS"')):
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path), "PYTHON": "true", "GITHUB_ACTION_PATH": str(ROOT), "VERSION": "",
           "PATHS": "configs/b,c 100%: ds_config.json\n\nconfigs/ds_clean.json\n", "OPTIONS": "--world-size 8", "SARIF": "out.sarif",
           "CALLS": str(tmp_path / "calls")}  # fmt: skip
    subprocess.run(["bash", "-e", "-c", script], check=True, env=env, cwd=tmp_path)
    common = "<--><configs/b,c 100%: ds_config.json><configs/ds_clean.json>\n"
    assert (tmp_path / "calls").read_text() == (
        f"<validate><--world-size><8><--format><sarif><--fail-on><never>{common}"
        f"<validate><--world-size><8><--format><github>{common}"
    )


def test_a_teams_own_tests_can_assert_that_its_configurations_are_valid(folder: Path) -> None:
    assert len(list(configs_in(folder))) == 4
    assert_valid(folder / "ds_clean.json", world_size=8)
    assert_valid({"train_batch_size": 8, "gradient_clipping": 1.0}, world_size=8)
    with pytest.raises(AssertionError, match=r"(?s)DS301.*ds_config\.json:4:37.*\^\^\^"):
        assert_valid(folder / "b,c 100%: ds_config.json")
    with pytest.raises(AssertionError, match="DS603"):
        assert_valid({"train_batch_size": 6, "gradient_clipping": 1.0}, world_size=4)
    assert_valid(folder / "a_ds_config.json")
    with pytest.raises(AssertionError, match="DS902"):
        assert_valid(folder / "a_ds_config.json", fail_on="warning")


def test_text_reports_give_terminals_nothing_to_obey(cli: Cli) -> None:
    text = rb'{"\u001b[31mred\nline": 1, "train_batch_size": 1}'
    for format in ("full", "concise", "github"):
        done = cli("validate", "--format", format, "-", stdin=text)
        assert "\x1b" not in done.stdout and r"\x1b[31mred\nline" in done.stdout and not done.stderr
    assert len(cli("validate", "--format", "concise", "-", stdin=text).stdout.splitlines()) == 1


def test_the_fixing_hook_mends_what_is_safe(cli: Cli, tmp_path: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (entry,) = [item["entry"] for item in hooks if item["id"] == "dsconf-fix"]
    text = '{"train_batch_size": 1, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2, "overlap_com": true}}'
    (tmp_path / "ds_config.json").write_text(text)
    assert cli(*entry.split()[1:], "ds_config.json").returncode == 0
    assert (tmp_path / "ds_config.json").read_text() == text.replace("overlap_com", "overlap_comm")
