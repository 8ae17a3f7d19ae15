"""Converting between a trainer's arguments and a ds_config, held against the real trainers."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconf.cli import main
from dsconf.convert import Converted, Program, from_config, to_config
from dsconf.convert.effect import settings
from dsconf.diagnostic import dotted
from dsconf.readers import PROFILES
from dsconf.resolve import differences
from dsconf.source import read_text
from dsconf.training_args import read_training_args
from tests.conftest import Cli

DRAWN = 12
ROOT = Path(__file__).resolve().parent.parent


def converted(tmp_path: Path, program: Program, arguments: dict[str, Any], world_size: int | None = None) -> Converted:
    file = tmp_path / "arguments.yaml"
    file.write_text(yaml.safe_dump(arguments, sort_keys=False))
    return to_config(read_training_args(file), program, world_size=world_size)


def back(values: dict[str, Any], program: Program) -> Converted:
    return from_config(read_text(json.dumps(values, indent=2), "ds_config.json"), program)


def accelerate_yaml(section: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "num_processes": 1,
        "num_machines": 1,
        "machine_rank": 0,
        **top,
        "deepspeed_config": section,
    }


def drawn_for_accelerate(draw: random.Random) -> dict[str, Any]:
    stage = draw.choice([0, 1, 2, 3])
    section: dict[str, Any] = {"zero_stage": draw.choice([stage, str(stage)])}
    optional = {
        "gradient_accumulation_steps": draw.choice([1, 4]),
        "gradient_clipping": draw.choice([0.5, 1.0, "auto", 2]),
        "offload_optimizer_device": draw.choice(["none", "cpu", "CPU"]) if stage else "none",
        "offload_param_device": draw.choice(["none", "cpu"]) if stage == 3 else "none",
        "zero3_save_16bit_model": draw.choice([True, False]) if stage == 3 else False,
    }
    section.update({name: value for name, value in optional.items() if draw.random() < 0.7})
    precision = draw.choice(["no", "bf16", "fp16", None]) if stage else draw.choice(["no", None])
    return accelerate_yaml(section, **({"mixed_precision": precision} if precision else {}))


def drawn_for_transformers(draw: random.Random) -> dict[str, Any]:
    def auto(*names: str) -> dict[str, Any]:
        return {name: "auto" for name in names if draw.random() < 0.8}

    file: dict[str, Any] = {
        **auto("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
        **auto("gradient_clipping"),
        "bf16": auto("enabled"),
        "optimizer": {"type": "AdamW", "params": auto("lr", "betas", "eps", "weight_decay")},
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"total_num_steps": "auto", **auto("warmup_min_lr", "warmup_max_lr", "warmup_num_steps")},
        },
        "zero_optimization": {"stage": draw.choice([0, 1, 2, 3])},
    }
    given = {
        "per_device_train_batch_size": draw.choice([1, 4]),
        "gradient_accumulation_steps": draw.choice([1, 8]),
        "max_grad_norm": draw.choice([0.0, 0.5, 1]),
        "learning_rate": draw.choice([1e-4, 3e-5]),
        "adam_beta2": 0.95,
        "adam_epsilon": 1e-6,
        "weight_decay": 0.1,
        "warmup_steps": draw.choice([0, 10, 0.25]),
        "bf16": draw.choice([True, False]),
        "save_on_each_node": draw.choice([True, False]),
    }
    kept = {name: value for name, value in given.items() if draw.random() < 0.7}
    return {"deepspeed": file, "max_steps": 101, **kept}


def drawn_for_lightning(draw: random.Random) -> dict[str, Any]:
    stage = draw.choice([1, 2, 3])
    offloads = {"offload_optimizer": True, "pin_memory": draw.choice([True, False])}
    parameters = {"offload_parameters": True, "offload_params_device": draw.choice(["cpu", "nvme"])}
    optional = {
        "overlap_comm": draw.choice([True, False]),
        "contiguous_gradients": draw.choice([True, False]),
        "reduce_bucket_size": 50_000_000,
        "logging_batch_size_per_gpu": draw.choice([4, "auto"]),
        "cpu_checkpointing": True,
        "initial_scale_power": 12,
        "zero_allow_untested_optimizer": draw.choice([True, False]),
    }
    arguments: dict[str, Any] = {"stage": stage}
    arguments.update({name: value for name, value in optional.items() if draw.random() < 0.6})
    arguments.update(offloads if draw.random() < 0.5 else {})
    arguments.update(parameters if stage == 3 and draw.random() < 0.5 else {})
    around = {
        "precision": draw.choice(["32-true", "bf16-mixed", "16-mixed", "bf16-true"]),
        "accumulate_grad_batches": draw.choice([1, 4]),
        "gradient_clip_val": draw.choice([None, 0.5]),
    }
    strategy = {"class_path": "lightning.pytorch.strategies.DeepSpeedStrategy", "init_args": arguments}
    return {"trainer": {**around, "strategy": strategy}}


DRAWS = {
    "accelerate": drawn_for_accelerate,
    "transformers": drawn_for_transformers,
    "lightning": drawn_for_lightning,
}
#: Arguments that the programs fail on or lose, with what dsconf says about them.
LOST: list[tuple[dict[str, Any], str, str]] = [
    ({"zero_stage": 2, "gradient_clipping": 0}, "gradient_clipping", "warning"),
    (
        {"zero_stage": 3, "offload_optimizer_device": "nvme", "offload_optimizer_nvme_path": "/tmp"},
        "offload_optimizer_nvme_path",
        "warning",
    ),
    ({"zero_stage": "two"}, "zero_stage", "error"),
    ({"zero_stage": 2, "gradient_clipping": "none"}, "gradient_clipping", "error"),
]


@pytest.fixture(scope="module")
def jobs() -> list[tuple[Program, dict[str, Any]]]:
    draw = random.Random(1)
    drawn: list[Any] = [(name, make(draw)) for name, make in DRAWS.items() for _ in range(DRAWN)]
    return [*drawn, *(("accelerate", accelerate_yaml(section)) for section, _, _ in LOST)]


@pytest.fixture(scope="module")
def real(jobs: list[tuple[Program, dict[str, Any]]]) -> list[Any]:
    """What the real programs make of every job, all in one process."""
    command = [sys.executable, "-m", "tests.real_trainers"]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("program", DRAWS)
def test_the_file_is_in_effect_what_the_program_makes(
    program: Program, jobs: list[tuple[Program, dict[str, Any]]], real: list[Any], tmp_path: Path
) -> None:
    compared = 0
    overwritten = {item.path for item in PROFILES[program].overrides}
    for (name, job), made in zip(jobs[: -len(LOST)], real, strict=False):
        if name != program:
            continue
        outcome = converted(tmp_path, program, job, world_size=1)
        assert isinstance(made, dict), (job, made)
        made = {key: value for key, value in made.items() if (key,) not in overwritten}
        if program == "lightning":
            # What Lightning adds when it runs, the second from a loader that the arguments do not show.
            del made["gradient_accumulation_steps"]
            outcome.values.setdefault("train_micro_batch_size_per_gpu", 1)
            # Lightning writes these blocks out even where they hold DeepSpeed's own values.
            outcome.values.update({"aio": {}, "activation_checkpointing": {}} | outcome.values)
        found = differences(settings(made), settings(outcome.values))
        assert not found, (job, [(dotted(item.path), item.before, item.after) for item in found])
        compared += 1
    assert compared == DRAWN


@pytest.mark.parametrize("index", range(len(LOST)), ids=[name for _, name, _ in LOST])
def test_what_accelerate_loses_or_fails_on_is_said_where_it_stands(index: int, real: list[Any], tmp_path: Path) -> None:
    section, argument, severity = LOST[index]
    made = real[index - len(LOST)]
    outcome = converted(tmp_path, "accelerate", accelerate_yaml(section))
    (remark,) = outcome.remarks
    assert remark.severity == severity and argument in remark.message
    lines = (tmp_path / "arguments.yaml").read_text().splitlines()
    line, column = map(int, remark.place.rpartition(".yaml:")[2].split(":"))
    assert lines[line - 1][column - 1 :].startswith(argument)
    if severity == "error":
        assert isinstance(made, str) and not outcome.sound
    elif argument == "gradient_clipping":
        assert "gradient_clipping" not in made and outcome.values["gradient_clipping"] == 0.0
    else:
        assert made["zero_optimization"]["offload_optimizer"]["nvme_path"] == "none"
        assert outcome.values["zero_optimization"]["offload_optimizer"]["nvme_path"] == "/tmp"


@pytest.mark.parametrize("program", ["accelerate", "lightning"])
def test_arguments_come_back_from_the_file_that_they_became(program: Program, tmp_path: Path) -> None:
    draw = random.Random(2)
    for _ in range(DRAWN):
        job = DRAWS[program](draw)
        first = converted(tmp_path, program, job)
        if not first.sound:
            continue
        returned = back(first.values, program)
        assert returned.sound, (job, returned.remarks)
        again = converted(tmp_path, program, returned.values)
        assert not differences(settings(first.values), settings(again.values)), job


def test_the_trainers_arguments_that_a_file_asks_for_do_not_contradict_it(tmp_path: Path) -> None:
    values = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 0.5,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
        "zero_optimization": {"stage": 2},
    }
    outcome = back(values, "transformers")
    assert outcome.sound
    assert outcome.values == {
        "deepspeed": "ds_config.json",
        "per_device_train_batch_size": 4,
        "max_grad_norm": 0.5,
        "learning_rate": 1e-4,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "bf16": True,
    }


@pytest.mark.parametrize(
    ("program", "values", "place", "said"),
    [
        ("accelerate", {"zero_optimization": {"stage": 2, "reduce_bucket_size": 7}}, "4:5", "reduce_bucket_size"),
        ("accelerate", {"gradient_clipping": 0.0, "zero_optimization": {"stage": 2}}, "2:3", "drops a 0"),
        ("lightning", {"wall_clock_breakdown": True}, "2:3", "wall_clock_breakdown"),
        ("lightning", {"optimizer": {"type": "AdamW", "params": {"lr": 0.1}}}, "3:5", "optimizer.type"),
    ],
)
def test_what_arguments_cannot_say_is_refused_with_its_place(
    program: Program, values: dict[str, Any], place: str, said: str
) -> None:
    outcome = back({**values, **({"train_batch_size": "auto"} if program == "accelerate" else {})}, program)
    assert not outcome.sound
    assert f"ds_config.json:{place}" in [item.place for item in outcome.remarks if said in item.message]


def test_a_setting_beside_the_file_is_refused_and_both_places_are_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{\n  "zero_optimization": {"stage": 2}\n}\n')
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n  zero_stage: 3\n"
    )
    done = cli("convert", "--from", "accelerate", "a.yaml", "-o", "out.json")
    assert done.returncode == 1 and not (tmp_path / "out.json").exists()
    assert "`zero_stage` is 3 in a.yaml:4:3, and `zero_optimization.stage` is 2 here" in done.stderr
    assert "--> ds.json:2:25" in done.stderr


def test_a_contradiction_of_the_trainers_arguments_names_both_places(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "args.yaml").write_text(
        "learning_rate: 0.1\ndeepspeed:\n  optimizer:\n    type: AdamW\n    params:\n"
        "      lr: 0.2\n  zero_optimization: {stage: 2}\n"
    )
    done = cli("convert", "--from", "transformers", "args.yaml")
    assert done.returncode == 1 and done.stdout == ""
    assert "`optimizer.params.lr` is 0.2 here, but `learning_rate` is 0.1 in args.yaml:1:1" in done.stderr
    assert "--> args.yaml:6:11" in done.stderr


def test_an_argument_of_the_strategy_beside_a_file_is_lost_and_both_places_are_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "l.yaml").write_text("trainer:\n  strategy:\n    stage: 3\n    config: ds.json\n")
    done = cli("convert", "--from", "lightning", "l.yaml")
    assert done.returncode == 1
    assert "`stage` is 3 in l.yaml:3:5, and `zero_optimization.stage` is 2 here" in done.stderr
    assert "--> ds.json:1:33" in done.stderr


def test_arguments_without_a_file_become_one(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"learning_rate": 3e-4, "bf16": true, "per_device_train_batch_size": 4}')
    done = cli("convert", "--from", "transformers", "args.json", "zero_optimization.stage=1", "--world-size", "2")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["train_batch_size"] == 8 and values["optimizer"]["params"]["lr"] == 3e-4
    assert values["bf16"] == {"enabled": True} and values["zero_optimization"] == {"stage": 1}


def test_an_error_of_the_result_is_shown_at_the_argument(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  offload_param_device: cpu\n"
    )
    done = cli("convert", "--from", "accelerate", "a.yaml")
    assert done.returncode == 1 and "offload-param-below-stage-3" in done.stderr
    assert "--> a.yaml:4:3" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "arguments.yaml:1:5: not YAML"),
        ("a: &x\n  b: *x\n", "contains itself"),
        ("1: 2\n", "1:1: a key is not a text"),
        ("deepspeed_config: {deepspeed_config_file: gone.json}", "arguments.yaml:1:20: gone.json: no such file"),
        ("deepspeed_config: {deepspeed_config_file: bad.json}", "bad.json:1:1"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arguments.yaml").write_text(text)
    Path("bad.json").write_text("{")
    status = main(["convert", "--from", "accelerate", "arguments.yaml"])
    shown = capsys.readouterr().err
    assert status == 2 and said in shown and shown.count("\n") == 1


def test_a_value_that_json_cannot_hold_is_said_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arguments.yaml").write_text("block_size: .inf\n")
    assert main(["convert", "--from", "lightning", "arguments.yaml", "-o", "out.json"]) == 2
    assert "JSON cannot hold" in capsys.readouterr().err and not Path("out.json").exists()
