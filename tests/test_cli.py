"""The command line: what people see, exit statuses, and bad input at every door."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

BROKEN = """{
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "allgather_bucket_size": 500000000
  },
  "gradient_clipping": 1.0
}
"""
GOOD = '{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0}'


def test_full_shows_line_caret_rule_reason_and_remedy(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(BROKEN)
    done = cli("validate", "ds_config.json")
    assert done.returncode == 1
    assert (
        done.stdout
        == """\
error[DS301 allgather-under-stage-3]: `allgather_bucket_size` has no effect under stage 3
 --> ds_config.json:6:5
  |
6 |     "allgather_bucket_size": 500000000
  |     ^^^^^^^^^^^^^^^^^^^^^^^
  = see: ds_config.json:5:5: the stage is set here
  = DeepSpeed: ignores this
  = help: remove it; set `stage3_prefetch_bucket_size` to bound the buffers of stage 3

1 file: 1 error, 0 warnings
"""
    )


def test_concise_is_one_line_for_each_finding(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(BROKEN)
    assert cli("validate", "--format", "concise", "ds_config.json").stdout == (
        "ds_config.json:6:5: error DS301 allgather-under-stage-3: `allgather_bucket_size` has no effect under stage 3\n"
    )


def test_json_is_one_object_with_everything_in_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(BROKEN)
    report = json.loads(cli("validate", "--format", "json", "ds_config.json").stdout)
    assert report["format_version"] == "1.1" and report["tool"]["name"] == "dsconf" and report["deepspeed"] == "0.19.8"
    assert report["summary"] == {"files": 1, "errors": 1, "warnings": 0, "infos": 0, "fixable": 1}
    (item,) = report["diagnostics"]
    assert item["code"] == "DS301" and item["effect"] == "ignored" and item["severity"] == "error"
    assert item["path"] == ["zero_optimization", "allgather_bucket_size"]
    assert item["pointer"] == "/zero_optimization/allgather_bucket_size"
    assert item["location"] == {"line": 6, "column": 5, "offset": BROKEN.index('"allgather')}
    assert item["end_location"]["column"] == 28
    assert item["fix"]["json_patch"] == [{"op": "remove", "path": item["pointer"]}]
    assert item["related"][0]["pointer"] == "/zero_optimization/stage"


def test_notes_are_shown_when_asked_for_and_always_in_json(cli: Cli) -> None:
    text = b'{"train_batch_size": 1}'
    assert "DS901" not in cli("validate", "-", stdin=text).stdout
    assert "DS901" in cli("validate", "--show-info", "-", stdin=text).stdout
    assert json.loads(cli("validate", "--format", "json", "-", stdin=text).stdout)["summary"]["infos"] == 1


@pytest.mark.parametrize(
    ("text", "level", "status"),
    [
        (BROKEN, "error", 1),
        (BROKEN, "never", 0),
        (GOOD, "info", 0),
        ('{"train_batch_size": 1, "gradient_clipping": -1}', "error", 0),
        ('{"train_batch_size": 1, "gradient_clipping": -1}', "warning", 1),
        ('{"train_batch_size": 1}', "warning", 0),
        ('{"train_batch_size": 1}', "info", 1),
    ],
)
def test_exit_status_follows_fail_on(cli: Cli, text: str, level: str, status: int) -> None:
    assert cli("validate", "--fail-on", level, "-", stdin=text.encode()).returncode == status


def test_a_directory_is_searched_for_configurations(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "stage3.json").write_text(BROKEN)
    (tmp_path / "configs" / "ds_config.json").write_text(GOOD)
    (tmp_path / "configs" / "package.json").write_text('{"name": "x"}')
    done = cli("validate", "--format", "concise", "configs")
    assert done.returncode == 1 and done.stdout.startswith(str(Path("configs", "stage3.json")))
    report = json.loads(cli("validate", "--format", "json").stdout)
    assert report["summary"]["files"] == 2


def test_world_size_is_taken_from_the_command_line(cli: Cli) -> None:
    text = b'{"train_batch_size": 6, "gradient_clipping": 1.0}'
    assert cli("validate", "--world-size", "3", "-", stdin=text).returncode == 0
    assert "DS603" in cli("validate", "--world-size", "4", "-", stdin=text).stdout


def test_colour_follows_the_flag_then_the_environment(cli: Cli) -> None:
    def coloured(*arguments: str, **environment: str) -> bool:
        return "\x1b[" in cli("validate", *arguments, "-", stdin=BROKEN.encode(), **environment).stdout

    assert not coloured()
    assert coloured("--color", "always", NO_COLOR="1")
    assert coloured(FORCE_COLOR="1")
    assert not coloured(FORCE_COLOR="1", NO_COLOR="1")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"  \n# nothing\n", "only blanks and comments"),
        (b"\x00\x01\x02\xff\xfe\x00binary\x00", "binary"),
        ('{"train_batch_size": 1}'.encode("utf-16"), "UTF-16"),
        (b'{"train_batch_size": \xff1}', "UTF-8"),
        (b"[1, 2]", "list"),
        (b"[" * 100_000, "list"),
        (b'{"a":' * 100_000, "deep"),
        (b'{"train_batch_size": 8, "fp16": {"enabled": true}\n', "never closed"),
        (b'{"train_batch_size" 8}', "':'"),
        (b"x" * (17 << 20), "MiB"),
    ],
    ids=["empty", "comment", "binary", "utf-16", "not-utf-8", "list", "deep-list", "deep", "open", "colon", "huge"],
)
def test_a_file_that_cannot_be_read_is_a_finding_with_a_place(
    cli: Cli, tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "ds_config.json").write_bytes(content)
    done = cli("validate", "--format", "json", "ds_config.json")
    assert done.returncode == 1 and done.stderr == ""
    (item,) = json.loads(done.stdout)["diagnostics"]
    assert item["code"] == "DS001" and item["location"]["line"] >= 1
    assert said in item["message"] + item["help"]
    assert "Traceback" not in cli("validate", "ds_config.json").stdout


@pytest.mark.parametrize(
    "text",
    [
        '{"train_batch_size": NaN}',
        '{"train_batch_size": 1e400}',
        '{"train_batch_size": %s}' % ("9" * 6000),
        '{"train_batch_size": 1, "zero_optimization": {"stage": %s}}' % ("9" * 30),
        '{"train_batch_size": 1, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1e300}}',
        '{"train_batch_size": 1, "optimizer": {"type": ["AdamW"], "params": 7}}',
        '{"train_batch_size": {"a": [1, {"b": null}]}}',
    ],
)
def test_odd_values_are_findings(cli: Cli, text: str) -> None:
    done = cli("validate", "--format", "concise", "-", stdin=text.encode())
    assert done.returncode == 1 and done.stdout.startswith("<stdin>:1:") and done.stderr == ""


def test_a_byte_order_mark_passes_as_it_does_with_deepspeed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert cli("validate", "ds_config.json").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "absent.json"), "absent.json: no such file"),
        (("validate", "."), "no DeepSpeed configuration"),
        (("validate", "--world-size", "0", "-"), "number of ranks"),
        (("validate", "--format", "xml", "-"), "invalid choice"),
        (("explain", "allgather-under-stage3"), "did you mean allgather-under-stage-3?"),
        (("presets", "zero4"), "no preset 'zero4'"),
        (("compile", "zreo3"), "did you mean zero3?"),
        (("compile", "zero3", "stage"), "is not an override"),
        (("compile", "zero3", "gradient_clipping.x=1"), "is not a block"),
        (("compile", "zero3", "~gradient_cliping"), "no such key"),
        (("compile", "zero3", "-o", "/proc/nowhere/x.json"), "/proc/nowhere/x.json"),
        (("nonsense",), "invalid choice"),
    ],
)
def test_what_cannot_run_says_why_and_exits_with_2(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_explain_knows_rules_and_keys(cli: Cli) -> None:
    assert "stage3_prefetch_bucket_size" in cli("explain", "DS301").stdout
    assert cli("explain", "allgather-under-stage-3").stdout == cli("explain", "ds301").stdout
    page = cli("explain", "reduce_bucket_size").stdout
    assert "500000000" in page and "more than 0" in page and "runtime/zero/config.py" in page
    assert "train_micro_batch_size_per_gpu" in cli("explain", "train_micro_batch_size_per_gpu").stdout


def test_compile_writes_the_canonical_file(cli: Cli, tmp_path: Path) -> None:
    done = cli("compile", "zero3_offload", "zero_optimization.reduce_bucket_size=500M", "-o", "out/ds_config.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (tmp_path / "out" / "ds_config.json").read_text()
    assert json.loads(text)["zero_optimization"]["reduce_bucket_size"] == 500_000_000 and text.endswith("}\n")
    assert cli("validate", "out/ds_config.json").returncode == 0


def test_a_wrong_override_is_named(cli: Cli) -> None:
    done = cli("compile", "zero3", "zero_optimization.stage=2", "zero_optimization.sub_group_size=1e9")
    assert done.returncode == 1 and done.stdout == ""
    assert "override zero_optimization.stage=2" in done.stderr
    assert "override zero_optimization.sub_group_size=1e9" in done.stderr


def test_fp16_at_stage_0_is_refused_by_the_compiler(cli: Cli) -> None:
    assert "DS502" in cli("compile", "ddp,fp16").stderr
    assert cli("compile", "zero1,fp16").returncode == 0


def test_schema_prints_what_is_published(cli: Cli) -> None:
    closed, editor = json.loads(cli("schema").stdout), json.loads(cli("schema", "--open").stdout)
    assert closed["additionalProperties"] is False and "additionalProperties" not in editor


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    import subprocess
    import sys

    root = Path(__file__).resolve().parent.parent
    command = f"{sys.executable} -m dsconf schema | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, cwd=root, text=True)
    assert done.stderr == ""


def test_facts_about_the_job_are_judged(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(GOOD)
    done = cli("validate", "--format", "concise", "--job", "zero_init=true", "ds_config.json")
    assert done.returncode == 1 and "DS981 zero-init-below-stage-3" in done.stdout


@pytest.mark.parametrize(
    ("fact", "complaint"),
    [
        ("zero_init", "'zero_init' is not a fact about the job; write NAME=VALUE"),
        ("zero_init=maybe", "zero_init is 'maybe'; write true or false"),
        ("transformers=new", "transformers is 'new'; write a release, such as 4.44.2"),
        ("zeroinit=true", "nothing is known as 'zeroinit' about a job; did you mean zero_init?"),
        ("ranks_per_node=0", "ranks_per_node is 0; write a whole number above 0"),
    ],
)
def test_a_fact_that_cannot_be_is_refused(cli: Cli, tmp_path: Path, fact: str, complaint: str) -> None:
    (tmp_path / "ds_config.json").write_text(GOOD)
    done = cli("validate", "--job", fact, "ds_config.json")
    assert done.returncode == 2 and complaint in done.stderr


def test_what_can_be_told_about_a_job_is_explained(cli: Cli) -> None:
    assert "loader_batch_size" in cli("explain", "job").stdout


def test_progress_on_many_files_is_for_terminals_only(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    for number in range(120):
        (tmp_path / "configs" / f"ds_{number}.json").write_text(GOOD)
    command = [sys.executable, "-m", "dsconf", "validate", "configs"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    terminal, end = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, cwd=tmp_path, env=env)
    os.close(end)
    assert "100 files checked" in os.read(terminal, 10_000).decode()
    os.close(terminal)
    quiet = subprocess.run(command, capture_output=True, cwd=tmp_path, env=env)
    assert done.stdout == quiet.stdout == b"120 files: 0 errors, 0 warnings\n" and quiet.stderr == b""


def test_rules_are_links_on_terminals_that_know_links(tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(BROKEN)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "TERM": "xterm"}
    seen: list[str] = []
    for program in ("vscode", "unheard-of"):
        terminal, end = pty.openpty()
        command = [sys.executable, "-m", "dsconf", "validate", "ds_config.json"]
        subprocess.run(command, stdout=end, cwd=tmp_path, env={**env, "TERM_PROGRAM": program})
        os.close(end)
        seen.append(os.read(terminal, 10_000).decode())
        os.close(terminal)
    assert "\x1b]8;;https://dsconf.readthedocs.io/en/stable/rules/allgather-under-stage-3/\x1b\\" in seen[0]
    assert "\x1b]8;;" not in seen[1] and "\x1b[" in seen[1]


@pytest.mark.parametrize("command", ["validate", "explain", "presets", "compile", "schema", "completion"])
def test_help_teaches_by_examples_that_work(cli: Cli, command: str) -> None:
    text = cli(command, "--help").stdout
    assert "examples:\n" in text and text.count(f"  dsconf {command}") >= 2
