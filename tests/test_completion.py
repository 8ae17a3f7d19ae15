"""Completion scripts, in each shell that this machine has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli

#: What is typed, what must then be offered, and what must not.
CASES = [
    ("dsconf va", ["validate"], ["compile"]),
    ("dsconf explain DS30", ["DS301", "DS303"], ["DS401"]),
    ("dsconf explain nvme-w", ["nvme-without-path"], []),
    ("dsconf explain zero_optimization.sta", ["zero_optimization.stage"], []),
    ("dsconf presets zero3_", ["zero3_nvme", "zero3_offload"], ["zero2"]),
    ("dsconf compile zero3_o", ["zero3_offload"], ["zero3_nvme"]),
    ("dsconf compile zero2 fp16.init", ["fp16.initial_scale_power="], []),
    ("dsconf validate --for ", ["transformers", "accelerate", "lightning"], ["ds_config.json"]),
    ("dsconf validate --format j", ["json", "junit"], ["sarif"]),
    ("dsconf validate --wor", ["--world-size"], []),
    ("dsconf validate ds_c", ["ds_config.json"], []),
    ("dsconf completion f", ["fish"], ["bash"]),
]


@pytest.fixture
def script(cli: Cli, tmp_path: Path) -> Path:
    (tmp_path / "ds_config.json").write_text("{}")
    return tmp_path / "script"


@pytest.mark.parametrize(("typed", "offered", "left"), CASES, ids=[case[0] for case in CASES])
def test_bash_offers_what_fits(cli: Cli, script: Path, typed: str, offered: list[str], left: list[str]) -> None:
    script.write_text(cli("completion", "bash").stdout)
    words = typed.split(" ")
    program = f"""
source {script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
_dsconf
[ ${{#COMPREPLY[@]}} -gt 0 ] && printf '%s\\n' "${{COMPREPLY[@]}}" || compgen -f -- '{words[-1]}'
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=script.parent)
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert set(offered) <= set(lines) and not set(left) & set(lines)


@pytest.mark.parametrize("shell", [name for name in ("fish",) if shutil.which(name)])
@pytest.mark.parametrize(("typed", "offered", "left"), CASES, ids=[case[0] for case in CASES])
def test_fish_offers_what_fits(
    cli: Cli, script: Path, shell: str, typed: str, offered: list[str], left: list[str]
) -> None:
    script.write_text(cli("completion", "fish").stdout)
    program = f"source {script}; complete -C '{typed}'"
    done = subprocess.run([shell, "--no-config", "-c", program], capture_output=True, text=True, cwd=script.parent)
    assert not done.stderr
    lines = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert set(offered) <= set(lines) and not set(left) & set(lines)


#: What an interactive zsh is told first: every match that completion would offer goes to a file, and then it ends.
ZSH = """\
PROMPT= ; autoload -Uz compinit && compinit -u -D
source {script}
bindkey '^I' complete-word
compadd() {{
    local -a found
    if [[ " ${{@[1,(i)(-|--)]}} " == *\\ -(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
    builtin compadd -A found "$@"
    print -rl -- $found >> matches
}}
comppostfuncs=(exit)
print READY
"""
#: Types at that zsh in a terminal of its own, and waits for its end.
ZSH_TERMINAL = """\
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'source ./setup'
zpty -r -m z seen '*READY*'
zpty -w -n z $1$'\\t'
while zpty -r z seen; do :; done
"""


@pytest.mark.parametrize("shell", [name for name in ("zsh",) if shutil.which(name)])
@pytest.mark.parametrize(("typed", "offered", "left"), CASES[::2], ids=[case[0] for case in CASES[::2]])
def test_zsh_offers_what_fits(
    cli: Cli, script: Path, shell: str, typed: str, offered: list[str], left: list[str]
) -> None:
    script.write_text(cli("completion", "zsh").stdout)
    (script.parent / "setup").write_text(ZSH.format(script=script))
    (script.parent / "matches").touch()
    command = [shell, "-f", "-c", ZSH_TERMINAL, "zsh", typed]
    subprocess.run(command, capture_output=True, cwd=script.parent, timeout=60, check=False)
    lines = (script.parent / "matches").read_text().splitlines()
    assert set(offered) <= set(lines) and not set(left) & set(lines)
