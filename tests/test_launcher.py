"""What the launcher reads: every rule against the functions of DeepSpeed's own launcher, and the command line."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deepspeed.launcher import runner as deepspeed_launcher

from dsconf.launcher import RULES, Request, read_env_file, read_hostfile, resolve
from dsconf.launcher.rule import Example, LauncherRule
from tests.conftest import Cli

rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def codes(example: Example) -> list[str]:
    hostfile = read_hostfile(example.hostfile or "", "hostfile")
    found = [*hostfile.diagnostics]
    if example.env_file is not None:
        found += read_env_file(example.env_file, ".deepspeed_env").diagnostics
    if not found:
        options: dict[str, Any] = dict(example.options)
        found += resolve(Request(hostfile=hostfile, environment=example.environment, **options)).diagnostics
    return sorted({item.code for item in found})


class Launched:
    """What the real launcher does with an example: the command that it starts on the hosts, or what it raises."""

    def __init__(self, example: Example, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        for name, text in (("hosts", example.hostfile), (".deepspeed_env", example.env_file)):
            if text is not None:
                (directory / name).write_text(text)
        # Stand-ins for the programs that reach other hosts: they only write down what they are asked to do.
        (directory / "ssh").write_text("#!/bin/sh\necho 10.0.0.1\n")
        for name in ("pdsh", "ompi_info", "mpirun"):
            (directory / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" > {directory}/asked\n')
        for name in ("ssh", "pdsh", "ompi_info", "mpirun"):
            (directory / name).chmod(0o755)
        monkeypatch.chdir(directory)
        monkeypatch.setenv("HOME", str(directory / "home"))
        monkeypatch.setenv("PATH", str(directory), prepend=":")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        for name, value in example.environment.items():
            monkeypatch.setenv(name, value)
        # The local way starts sys.executable.
        (directory / "python").write_text(f'#!/bin/sh\nprintf "local %s\\n" "$*" > {directory}/asked\n')
        (directory / "python").chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(directory / "python"))
        words = [f"--{name}={value}" for name, value in example.options.items()]
        self.raised: BaseException | None = None
        try:
            deepspeed_launcher.main([f"--hostfile={directory}/hosts", *words, "train.py"])
        except Exception as error:
            self.raised = error

    @property
    def asked(self) -> str:
        return (self.directory / "asked").read_text()

    @property
    def slots(self) -> dict[str, list[int]]:
        encoded = self.asked.partition("--world_info=")[2].split()[0]
        return json.loads(base64.urlsafe_b64decode(encoded))

    def environment(self) -> str:
        """What a host ends up with: the command run by a shell, with `env` in place of Python."""
        command = "export " + self.asked.partition("export ")[2]
        command = command.replace(f"{self.directory}/python", "echo TRAINS; env; true")
        done = subprocess.run(["bash", "-c", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
        return done.stdout


def silent(example: Example, launched: Launched) -> None:
    """Both sides take the example for the same thing."""
    assert launched.raised is None
    hostfile = read_hostfile(example.hostfile or "", "hostfile")
    options: dict[str, Any] = dict(example.options)
    mine = resolve(Request(hostfile=hostfile, **options)).slots
    if "world_info" in launched.asked:
        assert launched.slots == mine


@rules
def test_bad_example_shows_the_rule_and_nothing_else(rule: LauncherRule) -> None:
    assert codes(rule.bad) == [rule.code]


@rules
def test_good_example_shows_nothing(rule: LauncherRule) -> None:
    assert codes(rule.good) == []


@rules
def test_the_launcher_takes_the_good_example(
    rule: LauncherRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent(rule.good, Launched(rule.good, tmp_path, monkeypatch))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.effect == "refused"], ids=lambda rule: rule.code)
def test_the_launcher_refuses_the_bad_example(
    rule: LauncherRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = Launched(rule.bad, tmp_path, monkeypatch)
    assert rule.says in str(launched.raised)
    assert launched.raised is not None


#: Of the rules about what is not refused: the slots that the launcher uses on the bad example, or what a host's
#: environment holds, or lacks (after a dash).
SHOWN: dict[str, Any] = {
    "DL104": {"worker-1": [0, 1], "worker-2": [0, 1]},
    "DL105": {"worker-1": [0, 1], "worker-2": []},
    "DL106": {"worker-1,worker-2": [0, 1], "worker-3": [0, 1]},
    "DL206": "local",
    "DL208": {"worker-1": [0, 1], "worker-2": [0, 1]},
    "DL209": {"worker-1": [0, 1, 2], "worker-2": [0, 1, 2]},
    "DL210": {"worker-1": [0, 1], "worker-2": [1]},
    "DL304": {"worker-1": [0, 1], "worker-2": [0, 1]},
    "DL402": ["-TRAINS", "-NCCL_DEBUG=INFO"],
    "DL403": ["TRAINS", "-DEBUG=INFO"],
    "DL404": ["TRAINS", "-GREETING=hello world", "GREETING=hello\n"],
    "DL405": ["TRAINS", "CUDA_VISIBLE_DEVICES=1"],
    "DL406": ["TRAINS", "NCCL_DEBUG=WARN", "-NCCL_DEBUG=INFO"],
}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.effect != "refused"], ids=lambda rule: rule.code)
def test_the_launcher_does_with_the_bad_example_what_the_rule_says(
    rule: LauncherRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = Launched(rule.bad, tmp_path, monkeypatch)
    assert launched.raised is None
    shown = SHOWN[rule.code]
    if isinstance(shown, dict):
        assert launched.slots == shown
    elif isinstance(shown, str):
        assert launched.asked.startswith(shown)
    else:
        environment = launched.environment()
        for word in shown:
            assert (word.removeprefix("-") in environment) == (not word.startswith("-")), environment


@pytest.mark.parametrize(
    "text",
    [
        "w0 slots=4\r\nw1\tslots=2\r\n",
        "  w0   slots=1  \n\n# c\nw1 slots=2 # two\n",
        "w0 slots=a\n",
        "w0 slots= 2\n",
        "w0 Slots=2\n",
        "w0 foo slots=2\n",
        "w0 slots=-1\n",
        "w0 slots=2.5\n",
        "user@w0 slots=1\n",
        "\ufeffw0 slots=1\n",
        "",
        "w0\u00a0slots=3\n",
    ],
)
def test_hostfiles_are_read_as_the_launcher_reads_them(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text, encoding="utf-8", newline="")
    mine = read_hostfile(text, "hosts")
    refused = any(item.effect == "refused" for item in mine.diagnostics)
    try:
        theirs: dict[str, int] | None = dict(deepspeed_launcher.fetch_hostfile(str(path)))
    except ValueError:
        theirs = None
    assert (None if refused else mine.slots) == theirs


@pytest.mark.parametrize("word", ["include", "exclude"])
@pytest.mark.parametrize(
    "text",
    [
        "w1@w0",
        "w0:1@w0:0",
        "w0: 1 , 2",
        "w0:2,1,1",
        "w0:",
        "w0:0-2",
        "[::1]:0",
        "w0:-1",
        "w0@w0:1",
        "w9",
        "w0 @w1",
        "w0@",
        "w0:0,1,2",
        "w1:3",
    ],
)
def test_filters_are_read_as_the_launcher_reads_them(word: str, text: str) -> None:
    pool = {"w0": 3, "w1": 2, "w2": 1}
    hostfile = read_hostfile("".join(f"{host} slots={count}\n" for host, count in pool.items()), "hosts")
    asked: Any = {"include": "", "exclude": "", word: text}
    mine = resolve(Request(hostfile=hostfile, force_multi=True, **asked))
    refused = any(item.effect == "refused" for item in mine.diagnostics)
    try:
        theirs: dict[str, list[int]] | None = dict(
            deepspeed_launcher.parse_inclusion_exclusion(pool, asked["include"], asked["exclude"])
        )
    except ValueError:
        theirs = None
    assert (None if refused else mine.slots) == theirs


# The command line


def test_a_hostfile_is_checked_by_itself(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("w0 slots=2\n  w1:4\nw0 slots=2\n")
    done = cli("validate", "hostfile", "--format", "concise")
    assert done.returncode == 1
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == ["hostfile:2:3", "hostfile:3:1"]
    shown = cli("validate", "hostfile").stdout
    assert "error[DL101 bad-host-line]" in shown and "write w1 slots=4" in shown
    sarif = json.loads(cli("validate", "hostfile", "--format", "sarif").stdout)
    assert [rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]] == ["DL101", "DL102"]


def test_an_env_file_is_checked_by_itself(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / ".deepspeed_env").write_text("A=1\n\n# b=2\n")
    done = cli("validate", ".deepspeed_env", "--format", "concise")
    assert done.returncode == 1
    assert [line.split(" ")[2] for line in done.stdout.splitlines()] == ["DL401", "DL402"]
    assert done.stdout.startswith(".deepspeed_env:2:1: ")


def test_the_world_size_comes_from_the_hostfile(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("w0 slots=2\nw1 slots=4\n")
    (tmp_path / "ds.json").write_text('{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1}')
    assert cli("validate", "--hostfile", "hosts", "--include", "w0:0@w1:1,2,3", "ds.json").returncode == 0
    done = cli("validate", "--hostfile", "hosts", "ds.json")
    assert done.returncode == 1
    assert "6" in done.stdout
    wrong = cli("validate", "--hostfile", "hosts", "--include", "w0@w1:4", "ds.json", "--format", "concise")
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("--include:1:7: error DL203")
    assert cli("validate", "--hostfile", "nowhere", "ds.json").returncode == 2


def test_rules_about_the_launcher_are_explained(cli: Cli) -> None:
    done = cli("explain", "DL402")
    assert done.returncode == 0
    assert "# debug=on" in done.stdout
