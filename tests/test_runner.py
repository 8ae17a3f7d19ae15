"""The runner up to the point where training starts: composing, refusing, and what it decides."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dsconf import presets
from dsconf.memory import Machine, Model, World, account
from dsconf.memory.plan import read_preset
from runner import ds_config, forecast, ops, settings, text
from runner.compose import from_overrides
from runner.data import TrainingOrder, as_tokens, consecutive, rank_position
from runner.environment import prepare
from runner.errors import CannotStart, UsageError
from runner.evaluate import bigram_loss
from runner.forecast import describe
from runner.model.gpt import GPT
from runner.settings import DataSettings, ModelSettings, Settings

ROOT = Path(__file__).resolve().parent.parent


def composed(*overrides: str) -> Settings:
    return from_overrides(overrides)


def runner(cwd: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "importtime", "-m", "runner", *overrides]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    timings = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert not any(line.rpartition("|")[2].strip() == "torch" for line in timings), "torch was imported to refuse"
    message = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert "Traceback" not in done.stderr
    return subprocess.CompletedProcess(command, done.returncode, done.stdout, "\n".join(message))


# Composition


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_composes_to_a_valid_ds_config(name: str) -> None:
    chosen = f"[zero2,{name}]" if "zero_optimization" not in presets.read(name) else name
    composition = composed(f"+preset={chosen}")
    document = ds_config.build(composition, world_size=2).to_dict()
    assert name in composition.presets
    assert document["train_micro_batch_size_per_gpu"] == 8
    assert document["optimizer"]["params"]["lr"] == composition.optimizer.params["lr"]
    assert document["scheduler"]["params"]["total_num_steps"] == composition.training.steps


def test_presets_merge_in_their_order() -> None:
    document = ds_config.build(composed("+preset=[zero2,fp16]")).to_dict()
    assert document["zero_optimization"]["stage"] == 2
    assert document["fp16"]["enabled"] is True
    assert document["bf16"]["enabled"] is False


@pytest.mark.parametrize("scheduler", ["warmup", "warmup_decay", "warmup_cosine", "one_cycle", "range_test", "none"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "lion", "adagrad", "sgd"])
def test_every_optimizer_goes_with_every_scheduler(optimizer: str, scheduler: str) -> None:
    composition = composed("+preset=zero3_offload", f"optimizer={optimizer}", f"scheduler={scheduler}")
    document = ds_config.build(composition).to_dict()
    assert document["optimizer"]["type"].lower() == optimizer
    assert ("scheduler" in document) == (scheduler != "none")


def test_a_schedule_follows_the_number_of_steps() -> None:
    document = ds_config.build(composed("+preset=zero2", "training.steps=40", "scheduler=warmup_decay")).to_dict()
    assert document["scheduler"]["params"]["total_num_steps"] == 40
    assert document["scheduler"]["params"]["warmup_num_steps"] == 2


@pytest.mark.parametrize(("written", "meant"), [("500M", 500_000_000), ("'2^20'", 2**20), ("1e8", 100_000_000)])
def test_sizes_for_people_are_numbers_in_the_ds_config(written: str, meant: int) -> None:
    override = f"ds_config.zero_optimization.reduce_bucket_size={written}"
    document = ds_config.build(composed("+preset=zero2", override)).to_dict()
    assert document["zero_optimization"]["reduce_bucket_size"] == meant


# Refusals


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ["+preset=zero3_offload", "ds_config.zero_optimization.stage=2"],
            ["error DS", "from override: ds_config.zero_optimization.stage=2", "help: "],
        ),
        (["+preset=zero2", "optimizer.params.lr=fast"], ["error DS", "from override: optimizer.params.lr=fast"]),
        (
            ["--local_rank=0", "+preset=zero2", "training.steps=0"],
            ["training.steps", "from override: training.steps=0"],
        ),
        ([], ["no preset", "+preset=zero3_offload"]),
        (["+preset=zero9"], ["Could not find 'preset/zero9'", "zero3_offload"]),
        (["+preset=zero2", "training.stepz=3"], ["training.stepz"]),
    ],
)
def test_a_wrong_command_line_ends_with_status_2_before_torch_is_imported(
    tmp_path: Path, overrides: list[str], words: list[str]
) -> None:
    done = runner(tmp_path, *overrides)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_missing_text_ends_with_status_1_before_torch_is_imported(tmp_path: Path) -> None:
    done = runner(tmp_path, "+preset=zero2", "data.path=nowhere/*.txt")
    assert done.returncode == 1
    assert "nowhere/*.txt" in done.stderr
    assert not list(tmp_path.iterdir())


def test_help_lists_presets_and_settings(tmp_path: Path) -> None:
    done = runner(tmp_path, "--help")
    assert done.returncode == 0
    for word in ("zero3_offload", "warmup_cosine", "sequence_length"):
        assert word in done.stdout


@pytest.mark.parametrize("override", ["+presets=zero2", "+overrides=x"])
def test_a_choice_that_hydra_took_for_text_is_not_taken_for_a_preset(override: str) -> None:
    with pytest.raises(UsageError, match=r"names no preset(.|\n)*\+preset=zero3_offload"):
        composed("+preset=zero2", override)


def test_the_presets_own_optimizer_cannot_be_overridden_in_vain() -> None:
    with pytest.raises(UsageError, match=r"ds_config\.optimizer\.params\.lr=1 .*Override optimizer\.params\.lr"):
        ds_config.build(composed("+preset=zero2", "ds_config.optimizer.params.lr=1"))


def test_a_fault_of_a_preset_is_blamed_on_the_preset() -> None:
    with pytest.raises(UsageError, match="from preset: fp16"):
        ds_config.build(composed("+preset=fp16", "+ds_config.train_batch_size=8"))


def test_the_batch_is_checked_for_the_number_of_processes() -> None:
    composition = composed("+preset=zero2", "+ds_config.train_batch_size=8")
    ds_config.build(composition, world_size=1)
    with pytest.raises(UsageError, match=r"from override: \+ds_config.train_batch_size=8"):
        ds_config.build(composition, world_size=2)


def test_all_wrong_settings_are_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        composed("+preset=zero2", "+training.stepz=3", "model.width=30", "data.held_out=1.5")
    said = str(caught.value)
    assert "did you mean training.steps?" in said
    assert "width 30 must be a multiple" in said
    assert "from override: data.held_out=1.5" in said


# Text and order


def test_the_end_of_the_text_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"b" * 50)
    (tmp_path / "a.txt").write_bytes(b"a" * 50)
    (tmp_path / ".hidden").write_bytes(b"h" * 50)
    for path in (tmp_path, tmp_path / "*.txt"):
        read = text.read(DataSettings(path=str(path), sequence_length=5, held_out=0.1))
        assert read.train == b"a" * 50 + b"b" * 40
        assert read.held_out == b"b" * 10


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"too short", "the training text has 8 bytes"), (None, "no such file")]
)
def test_useless_text_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CannotStart, match=words):
        text.read(DataSettings(path=str(path), sequence_length=8, held_out=0.1))


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="has no files in it"):
        text.read(DataSettings(path=str(tmp_path), sequence_length=8))


def test_order_depends_on_seed_and_position_alone() -> None:
    tokens = torch.arange(100, dtype=torch.uint8)
    one, other = TrainingOrder(tokens, 10, seed=1), TrainingOrder(tokens, 10, seed=1)
    ahead = other.batch(25, 2)[0]
    for position in range(25):
        one.batch(position, 1)
    assert torch.equal(one.batch(25, 2)[0], ahead)
    assert not torch.equal(TrainingOrder(tokens, 10, seed=2).batch(25, 2)[0], ahead)


def test_an_epoch_goes_over_every_byte_once_and_the_next_in_another_order() -> None:
    order = TrainingOrder(torch.arange(100, dtype=torch.uint8), 10, seed=0)
    first, second = order.batch(0, 10), order.batch(10, 10)
    for inputs, targets in (first, second):
        assert sorted(inputs.flatten().tolist()) == list(range(100))
        assert torch.equal(targets, (inputs + 1) % 100)
    assert not torch.equal(first[0], second[0])


def test_ranks_share_what_one_process_would_see() -> None:
    order = TrainingOrder(torch.arange(200, dtype=torch.uint8), 10, seed=0)
    for step in range(4):
        shares = [order.batch(rank_position(0, step, rank, 2, 3), 3)[0] for rank in range(2)]
        assert torch.equal(torch.cat(shares), order.batch(rank_position(0, step, 0, 1, 6), 6)[0])


def test_held_out_sequences_are_consecutive() -> None:
    inputs, targets = consecutive(torch.arange(10, dtype=torch.uint8), 3)
    assert inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


# Figures


def test_the_bigram_model_counts_pairs_and_one_for_each_unseen() -> None:
    # After an a, b was seen twice in "abab"; after a b, a was seen once.
    expected = -(math.log(3 / 258) + math.log(2 / 257)) / 2
    assert bigram_loss(as_tokens(b"abab"), as_tokens(b"aba")) == pytest.approx(expected)


def test_the_model_starts_at_an_even_guess_and_sees_only_the_past() -> None:
    shape = ModelSettings(layers=2, width=16, heads=2)
    model = GPT(shape)
    tokens = torch.randint(256, (2, 12))
    assert model(tokens, tokens).item() == pytest.approx(math.log(256), abs=1e-5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    changed = tokens.clone()
    changed[:, 8] = (changed[:, 8] + 1) % 256
    before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8:], after[:, 8:])
    assert describe(shape).count == sum(parameter.numel() for parameter in model.parameters())


GPUS = World(1, 8)
SEVEN = Model.from_count(7_000_000_000)


@pytest.mark.parametrize("preset", ["zero3", "zero3_offload"])
def test_zero_init_is_used_from_the_byte_on_that_building_whole_does_not_fit(preset: str) -> None:
    config = read_preset(preset)
    whole = account(config, SEVEN, GPUS)
    for spare, use in ((0, False), (-1, True)):
        machine = Machine(whole.accelerator_bytes + 2**40, whole.host_bytes + spare, set_aside=False)
        assert forecast.choose("auto", config, SEVEN, GPUS, machine).zero_init is use
        machine = Machine(whole.accelerator_bytes + spare, whole.host_bytes + 2**40, set_aside=False)
        # The peak under zero.Init is as high where the optimizer stays on the accelerator.
        expected = use and account(config, SEVEN, GPUS, zero_init=True).accelerator_bytes < whole.accelerator_bytes
        assert forecast.choose("auto", config, SEVEN, GPUS, machine).zero_init is expected


def test_zero_init_on_cpus_goes_by_the_one_memory_that_there_is() -> None:
    config, world = read_preset("zero3"), World(1, 2)
    whole = account(config, SEVEN, world)
    for spare, use in (
        (0, False),
        (-1, account(config, SEVEN, world, zero_init=True).shared_bytes < whole.shared_bytes),
    ):
        machine = Machine(host_bytes=whole.shared_bytes + spare, shared=True, set_aside=False)
        assert forecast.choose("auto", config, SEVEN, world, machine).zero_init is use


@pytest.mark.parametrize(
    ("wish", "preset", "use", "why"),
    [
        ("auto", "zero2", False, "stage 2"),
        ("never", "zero3", False, "model.zero_init=never"),
        ("always", "zero3", True, "model.zero_init=always"),
        ("auto", "zero3_offload", True, "202.8 GiB of this host .*98.2 GiB .*with 100.0 GiB and 80.0 GiB free"),
    ],
)
def test_the_decision_on_zero_init_says_why_with_its_numbers(wish: Any, preset: str, use: bool, why: str) -> None:
    machine = Machine(80 * 2**30, 100 * 2**30)
    decision = forecast.choose(wish, read_preset(preset), Model.from_count(6_740_000_000), GPUS, machine)
    assert decision.zero_init is use
    assert re.search(why, decision.why) and "\n" not in decision.why


def test_a_run_that_cannot_fit_is_refused_with_what_would_fit() -> None:
    machine = Machine(80 * 2**30, 1024 * 2**30)
    with pytest.raises(CannotStart, match=r"too little memory on each accelerator .*needed.*free[^$]*\+preset=zero1"):
        forecast.choose("auto", read_preset("ddp"), SEVEN, GPUS, machine).refuse_shortage()
    forecast.choose("auto", read_preset("zero1"), SEVEN, GPUS, machine).refuse_shortage()


def test_a_run_that_nothing_can_make_fit_is_refused_with_what_to_change() -> None:
    machine = Machine(host_bytes=2**30, shared=True)
    with pytest.raises(CannotStart, match=r"on this host [^$]*no preset would fit; train a smaller model"):
        forecast.choose("auto", read_preset("zero3_offload"), SEVEN, GPUS, machine).refuse_shortage()


def test_zero_init_below_stage_3_is_refused() -> None:
    with pytest.raises(UsageError, match=r"model\.zero_init=always.*stage 2"):
        ds_config.build(composed("+preset=zero2", "model.zero_init=always"))


# The machine


def test_a_lock_that_nobody_holds_is_named_with_the_remedy(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    for path in (lock, tmp_path):
        os.utime(path, (0, 0))
    with pytest.raises(CannotStart, match=f"rm {lock}"):
        ops.wait_for_builder(lock, lambda _: None)


def test_a_lock_that_a_living_process_holds_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    program = f"import os, sys\nheld = open({str(lock)!r}, 'w')\nprint(flush=True)\ninput()\nos.remove({str(lock)!r})"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as builder:
        assert builder.stdin is not None and builder.stdout is not None
        builder.stdout.readline()
        said: list[str] = []

        def release(words: str) -> None:
            said.append(words)
            builder.communicate(b"\n")

        ops.wait_for_builder(lock, release)
    assert said == [f"waiting for another process that compiles {tmp_path.name}"]
    assert not lock.exists()


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotStart, match=r"cpu_adam.*no-such-compiler"):
        ops.require_compiler("cpu_adam")


@pytest.mark.parametrize(
    ("preset", "overrides", "builders"),
    [
        ("zero2", [], ["ShareMemCommBuilder", "FusedAdamBuilder"]),
        ("zero3_offload", [], ["ShareMemCommBuilder", "CPUAdamBuilder"]),
        ("zero3_offload", ["optimizer=lion"], ["ShareMemCommBuilder", "CPULionBuilder"]),
        ("zero2", ["optimizer=adagrad"], ["ShareMemCommBuilder"]),
        ("zero2", ["+optimizer.params.torch_adam=true"], ["ShareMemCommBuilder"]),
        ("zero3_nvme", [], ["ShareMemCommBuilder", "CPUAdamBuilder", "PinMemoryBuilder", "AsyncIOBuilder"]),
    ],
)
def test_only_the_ops_that_the_run_loads_are_asked_for(preset: str, overrides: list[str], builders: list[str]) -> None:
    document = ds_config.build(composed(f"+preset={preset}", *overrides)).to_dict()
    assert ops.needed(document, "cpu") == builders


def test_offloading_to_a_missing_directory_is_refused(tmp_path: Path) -> None:
    done = runner(tmp_path, "+preset=zero3_nvme", "ds_config.zero_optimization.offload_optimizer.nvme_path=nowhere")
    assert done.returncode == 1
    assert "offload_optimizer.nvme_path: nowhere does not exist" in done.stderr


def test_a_used_run_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "metrics.jsonl").write_text("kept")
    done = runner(tmp_path, "+preset=zero2", "run_dir=old")
    assert done.returncode == 1
    assert "run_dir: old exists and is not empty" in done.stderr
    assert (tmp_path / "old" / "metrics.jsonl").read_text() == "kept"


def test_a_bare_process_is_a_run_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "left over")
        monkeypatch.delenv(name)
    place = prepare()
    assert (place.rank, place.world_size, place.ranks_per_host, place.leads) == (0, 1, 1, True)
    assert int(os.environ["MASTER_PORT"]) > 0


def test_a_launchers_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "head", "MASTER_PORT": "29500"}
    for name, value in {**given, "LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}.items():
        monkeypatch.setenv(name, value)
    place = prepare()
    assert (place.rank, place.world_size, place.ranks_per_host, place.leads) == (5, 8, 4, False)
    assert {name: os.environ[name] for name in given} == given
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(CannotStart, match="LOCAL_RANK, WORLD_SIZE"):
        prepare()


def test_settings_can_be_made_without_hydra() -> None:
    values = {
        "model": {"layers": 1, "width": 8, "heads": 2},
        "data": {"sequence_length": 8},
        "training": {"steps": 1},
        "optimizer": {"type": "AdamW"},
        "ds_config": presets.read("zero1"),
    }
    assert ds_config.stage(ds_config.build(settings.read(values))) == 1
