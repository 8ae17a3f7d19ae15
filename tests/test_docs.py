"""The documentation: it builds without a warning, every link that dsconf prints leads somewhere, every example is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages.examples import FOLDER, examples, hand_written, rewritten
from dsconf.blocks import block_type, walk
from dsconf.links import HOME, key_url
from dsconf.rules import RULES

ROOT = FOLDER.parent
#: Commands that start the runner, each with what it is told.
LAUNCHES = sorted(
    {
        re.split(r"(?:-m|--module) runner ", command)[1]
        for page in hand_written()
        for example in examples(page)
        if example.language == "sh"
        for command in example.text.splitlines()
    }
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_address_that_dsconf_prints_is_a_page(site: Path) -> None:
    pages: dict[str, str] = {}
    addresses = [rule.url for rule in RULES] + [key_url(path) for path, _, _ in walk(block_type())]
    for address in addresses:
        page, _, anchor = address.removeprefix(HOME).partition("#")
        text = pages.setdefault(page, (site / page / "index.html").read_text(encoding="utf-8"))
        assert not anchor or f'id="{anchor}"' in text, address
    for name in ("ds_config.schema.json", "ds_config.closed.schema.json", "report.schema.json"):
        assert (site / "schemas" / name).read_bytes() == (ROOT / "schemas" / name).read_bytes()


def test_the_page_of_a_rule_shows_what_people_see(site: Path) -> None:
    text = (site / "rules" / "allgather-under-stage-3" / "index.html").read_text(encoding="utf-8")
    for said in (
        "error[DS301 allgather-under-stage-3]",
        "^^^^",
        "bit for bit",
        "deepspeed/runtime/",
        "remove `allgather",
    ):
        assert said in text or said.replace("`", "<code>", 1) in text


@pytest.mark.parametrize("page", hand_written(), ids=lambda page: page.stem)
def test_the_examples_print_what_the_page_shows(page: Path) -> None:
    assert rewritten(page) == page.read_text(encoding="utf-8"), "run: python -m docs.pages.examples"


def test_every_kind_of_example_is_looked_at() -> None:
    kinds = {(item.language, bool(item.title)) for page in hand_written() for item in examples(page)}
    assert {language for language, titled in kinds if not titled} <= {"console", "python", "sh", "lua", "toml"}


@pytest.mark.parametrize("arguments", LAUNCHES)
def test_what_a_launcher_starts_composes(arguments: str, tmp_path: Path) -> None:
    dry = ["launch=deepspeed", "launch.num_gpus=1", "launch.dry_run=true"]
    asked, shown = (dry, "batch: ") if "--multirun" in arguments else (["--cfg", "job"], "ds_config:")
    command = [sys.executable, "-m", "runner", *shlex.split(arguments), *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and shown in done.stdout, done.stderr


def test_the_tests_that_a_page_gives_pass(tmp_path: Path) -> None:
    for item in examples(FOLDER / "guides" / "ci.md"):
        if item.title:
            (tmp_path / item.title).parent.mkdir(exist_ok=True)
            (tmp_path / item.title).write_text(item.text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert "1 passed" in done.stdout, done.stdout
