"""`dsconf plan`, and memory in `dsconf validate`: what people see, and what nonsense gets them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dsconf import load
from tests.conftest import Cli

NODE = ("--gpus-per-node", "8", "--gpu-memory", "80GiB", "--host-memory", "1TiB")


def test_the_table_fits_80_columns_and_names_every_preset(cli: Cli) -> None:
    done = cli("plan", "--params", "70e9", "--seq-len", "4096", *NODE)
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("ddp", "zero1", "zero2", "zero2_offload", "zero3", "zero3_offload", "zero3_nvme"):
        assert re.search(rf"^[* ] {name} .*\d", done.stdout, re.MULTILINE)


def test_the_recommended_configuration_is_written_and_valid(cli: Cli, tmp_path: Path) -> None:
    done = cli("plan", "--params", "7e9", "--seq-len", "2048", "--micro-batch", "2", *NODE, "-o", "ds_config.json")
    assert done.returncode == 0
    config = load(tmp_path / "ds_config.json")
    assert config.train_micro_batch_size_per_gpu == 2
    assert f"* Take zero{config.zero_stage}" in done.stdout


def test_json_says_the_same_in_bytes(cli: Cli) -> None:
    record = json.loads(cli("plan", "--params", "7e9", *NODE, "--format", "json").stdout)
    for row in record["presets"]:
        accelerator = row["accelerator"]
        assert sum(accelerator["components_bytes"].values()) == accelerator["peak_bytes"]
        assert row["fits"] is not bool(row["shortages"]) or row["name"] == "zero3_nvme"
    assert record["recommended"] in {row["name"] for row in record["presets"] if row["fits"]}


def test_nothing_fits_is_said_with_status_1_and_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    done = cli("plan", "--params", "1e12", "--gpu-memory", "8GiB", "--host-memory", "16GiB", "-o", "ds_config.json")
    assert "Nothing fits" in done.stdout
    assert "ds_config.json is not written" in done.stderr
    assert not (tmp_path / "ds_config.json").exists()


def test_little_that_trains_makes_stages_1_and_2_useless(cli: Cli) -> None:
    done = cli("plan", "--params", "13e9", "--trainable", "0.5%", *NODE)
    assert "Stages 1 and 2 shard what belongs to those" in done.stdout


def test_a_file_is_looked_at_instead_of_the_presets(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}')
    done = cli("plan", "mine.json", "--params", "1e9", *NODE)
    assert "mine.json" in done.stdout and "zero3" not in done.stdout


@pytest.mark.parametrize("name", ["plan.svg", "plan.html"])
def test_a_picture_has_a_bar_for_every_preset(cli: Cli, tmp_path: Path, name: str) -> None:
    assert cli("plan", "--params", "7e9", *NODE, "--plot", name).returncode == 0
    text = (tmp_path / name).read_text()
    tree = ElementTree.fromstring(text[text.index("<svg") :])
    labels = {item.text for item in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"ddp", "zero2", "zero3_offload"} <= labels


def test_a_png_without_matplotlib_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError")
    root = Path(__file__).resolve().parent.parent
    done = cli("plan", "--params", "7e9", *NODE, "--plot", "plan.png", PYTHONPATH=f"{tmp_path}:{root}")
    assert done.returncode == 2
    assert "pip install 'dsconf[plot]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--gpu-memory 80GiB", "which model?"),
        ("--params 7e9", "how much memory has an accelerator?"),
        ("--params 0 --gpu-memory 80GiB", "between 1 and 1e15"),
        ("--params 7e9 --gpu-memory 80", "has no unit; write 80GiB"),
        ("--params 7e9 --gpu-memory 80GIB", "did you mean 80GiB?"),
        ("--params 7e9 --gpu-memory 80GiB --nodes 0", "whole number between 1 and"),
        ("--params 100 --gpu-memory 80GiB --nodes 1000", "1000 ranks are more than the model has parameters (100)"),
        ("--params 7e9 --model . --gpu-memory 80GiB", "--params and --model each describe the model"),
        ("--model . --gpu-memory 80GiB", "no config.json in there"),
        ("--model meta-llama/Llama-2-7b --gpu-memory 80GiB", "on this machine only"),
        ("--params 7e9 --trainable 200% --gpu-memory 80GiB", "at most 1 (100%)"),
        ("--params 7e9 --micro-batch 2 --gpu-memory 80GiB", "--micro-batch goes with --seq-len"),
        ("--params 7e9 --gpu-memory 80GiB --nvme /no/where", "no such directory"),
        ("--params 7e9 --gpu-memory 80GiB --preset zero9", "no preset 'zero9'"),
        ("--params 7e9 --gpu-memory 80GiB --plot plan.pdf", "pictures end in"),
        ("--hidden-size 4096 --gpu-memory 80GiB", "--hidden-size and --layers go together"),
        ("--hidden-size 1000000000 --layers 1000000000 --gpu-memory 80GiB", "no model has that shape"),
        ("nothing.json --params 7e9 --gpu-memory 80GiB", "no such file"),
    ],
)
def test_nonsense_is_refused_with_a_remedy(cli: Cli, arguments: str, says: str) -> None:
    done = cli("plan", *shlex.split(arguments))
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr


def test_validation_says_what_will_not_fit_with_numbers(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}')
    done = cli("validate", "--params", "7e9", "--world-size", "8", "--gpu-memory", "24GiB", "ds_config.json")
    assert done.returncode == 1
    assert re.search(r"DS970.*a rank needs [\d.]+ GiB .*21.1 GiB for tensors, [\d.]+ GiB too little", done.stdout)


def test_validation_says_which_block_the_host_is_too_small_for(cli: Cli, tmp_path: Path) -> None:
    offloaded = '{"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}'
    (tmp_path / "ds_config.json").write_text(f'{{"train_batch_size": 1, "zero_optimization": {offloaded}}}')
    done = cli("validate", "--params", "13e9", "--host-memory", "128GB", "--format", "json", "ds_config.json")
    (found,) = [item for item in json.loads(done.stdout)["diagnostics"] if item["code"] == "DS975"]
    assert found["severity"] == "warning" and found["path"] == ["zero_optimization", "offload_optimizer"]
    assert "112.7 GiB for tensors" in found["message"]


def test_validation_without_a_model_judges_buckets_only_and_says_so(cli: Cli, tmp_path: Path) -> None:
    zero = '{"stage": 2, "overlap_comm": true, "reduce_bucket_size": 500000000}'
    (tmp_path / "ds_config.json").write_text(
        f'{{"train_batch_size": 8, "fp16": {{"enabled": true}}, "zero_optimization": {zero}}}'
    )
    done = cli("validate", "--gpu-memory", "15GB", "--world-size", "4", "ds_config.json")
    assert "add --params" in done.stderr
    assert "DS976" in done.stdout and "DS970" not in done.stdout
