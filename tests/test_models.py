"""Models, datasets and data paths by configuration: what real runs in one process come to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from runner import export
from runner.digits import Digits
from tests.many_runs import train_all

OWN = """
import math
import torch
from torch import nn
from torch.utils.data import IterableDataset


class Net(nn.Module):
    # Gives the loss itself; ties weights, has a buffer that 16 bits cannot hold, and sets first values in both places.
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, width, bias=False)
        self.tied = nn.Linear(width, width, bias=False)
        self.tied.weight = self.second.weight
        self.scale = nn.Parameter(torch.full((width,), 1 / 3))
        self.last = nn.Linear(width, 1)
        self.register_buffer("shift", torch.arange(width) / 7)
        nn.init.uniform_(self.scale)
        self.apply(self.begin)

    def begin(self, module):
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 1 / module.in_features)

    def forward(self, x, y):
        x = torch.tanh(self.first(x)) * self.scale + self.shift.to(x.dtype)
        return (self.last(self.tied(self.second(x))) - y).square().mean()


class Touchy(Net):
    def __init__(self, width):
        super().__init__(width)
        nn.init.constant_(self.last.weight, 0.5)


class Hungry(Net):
    # Asks for more than any machine has, in the fourth step.
    calls = 0

    def forward(self, x, y):
        self.calls += 1
        if self.calls > 3:
            torch.empty(2**46)
        return super().forward(x, y)


class Points:
    def __init__(self, count):
        numbers = torch.Generator().manual_seed(count)
        self.x = torch.randn(count, 4, generator=numbers)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.x[index].sum(0, keepdim=True)


class Short(Points):
    # Counts samples that are not there.
    def __len__(self):
        return len(self.x) + 3

    def __getitem__(self, index):
        if index >= len(self.x):
            raise IndexError(f"no sample {index}")
        return super().__getitem__(index)


class Uneven(Points):
    def __getitem__(self, index):
        return self.x[index, : 1 + index % 4], self.x[index, :1]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())
"""
POINTS = {"train": {"_target_": "own.Points", "count": 22}, "held_out": {"_target_": "own.Points", "count": 7}}
DIGITS = {
    "train": {"_target_": "runner.digits.Digits", "train": True},
    "held_out": {"_target_": "runner.digits.Digits", "train": False},
}
VIT = {
    **{"_target_": "runner.model.vit.ViT", "image_size": 8, "patch_size": 4, "classes": 10, "layers": 2, "width": 64},
    **{"heads": 4, "expansion": 2, "loss": "torch.nn.functional.cross_entropy"},
}
LLAMA = {
    "_target_": "runner.model.hf.causal_lm",
    "loss": "runner.model.hf.next_token",
    "config": {
        **{
            "model_type": "llama",
            "vocab_size": 256,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
        },
        **{"num_attention_heads": 2, "tie_word_embeddings": True, "initializer_range": 0.1},
    },
}
STILL = {"type": "AdamW", "params": {"lr": 0.0}}


def ds(stage: int, micro: int = 4, bf16: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": bf16},
        "zero_optimization": {"stage": stage, **more},
    }


def net(name: str, **more: Any) -> dict[str, Any]:
    return {"model": {"_target_": f"own.{name}", "width": 8, **more}, "data": POINTS}


FIRST_WEIGHTS = {
    "fp32": ({**net("Net"), "ds_config": ds(3, bf16=False)}, "zero_init"),
    "bf16": ({**net("Net"), "ds_config": ds(3)}, "zero_init"),
    "Transformers": ({"model": LLAMA, "ds_config": ds(3, bf16=False)}, "zero_init"),
}
PATHS = {
    f"{kind}, {loader}": {
        **({"data": {"path": "text", "sequence_length": 16, "loader": loader}} if kind == "text" else net("Net")),
        **({"data": {**POINTS, "loader": loader}} if kind == "points" else {}),
        "ds_config": {**ds(2), "gradient_accumulation_steps": 2},
    }
    for kind in ("text", "points")
    for loader in ("runner", "deepspeed")
}
BROKEN_OFF = {
    "an early end": (
        "Short",
        "runner",
        "data.train: sample 2[234] of 25 cannot be had: IndexError: no sample 2[234] .*own.py",
    ),
    "an early end in a loader": (
        "Short",
        "deepspeed",
        "data.train: a batch cannot be had: IndexError: no sample 2[234]",
    ),
    "uneven samples": ("Uneven", "runner", r"data.train: samples [\d, ]+ make no batch: RuntimeError: .*data.collate"),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "touched": (
        {**net("Touchy", zero_init="always"), "ds_config": ds(3)},
        "uses a weight that deepspeed.zero.Init has put",
    ),
    "nothing frozen": (net("Net", freeze=["forst.*"]), "no parameter matches forst.*; there are scale, first.weight"),
    "all frozen": (net("Net", freeze=["*"]), "nothing is left to train"),
    "no loss": (
        {"model": {**VIT, "loss": None}, "data": DIGITS},
        "Without model.loss it is called with all of the batch",
    ),
    "no such model": ({"model": {"_target_": "own.Not"}, "data": POINTS}, "did you mean own.Net"),
    "no such size": ({"model": {**VIT, "patch_size": 3}, "data": DIGITS}, "image_size 8 must be a multiple"),
    "a stream": (
        {**net("Net"), "data": {**POINTS, "train": {"_target_": "own.Stream"}}},
        "a map-style dataset is needed",
    ),
    "too few": (
        {**net("Net"), "data": {**POINTS, "loader": "deepspeed"}, "ds_config": ds(0, micro=23)},
        "data.loader=runner",
    ),
    "no directory": (
        {"model": {**LLAMA, "config": None, "path": "nowhere"}},
        "nowhere is not a directory that save_pretrained",
    ),
    "no such kind": ({"model": {**LLAMA, "config": {"model_type": "lama"}}}, "model.config"),
}

Trained = tuple[Path, dict[str, "str | None"]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The directory that has those of all runs, by name, and what each run said that ended early."""
    directory = tmp_path_factory.mktemp("models")
    (directory / "own.py").write_text(OWN)
    (directory / "text").write_bytes(bytes(range(32, 122)) * 4)
    shared: dict[str, Any] = {
        "data": {"path": "text", "sequence_length": 16},
        "training": {"steps": 5, "log_every": 1},
        "checkpoint": {"every": 0},
        "ds_config": ds(2),
    }
    every: dict[str, dict[str, Any]] = {
        "vit": {
            "model": VIT,
            "data": DIGITS,
            "ds_config": ds(2, micro=64),
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
            "scheduler": {
                "type": "runner.schedules.cosine",
                "params": {"total_num_steps": 250, "warmup_num_steps": 20},
            },
            "training": {"steps": 250, "log_every": 50},
        },
        "frozen": {
            "model": {**VIT, "freeze": ["patches.*", "positions"]},
            "data": DIGITS,
            "ds_config": ds(3),
        },
        "autocast": {**net("Net"), "precision": "autocast"},
        **{
            f"{name}, {wish}": {**run, "model": {**run["model"], "zero_init": wish}, "optimizer": STILL}
            for name, (run, _) in FIRST_WEIGHTS.items()
            for wish in ("always", "never")
        },
        **{
            f"touchy, {wish}": {
                **net("Touchy", zero_init=wish),
                "ds_config": ds(3, offload_param={"device": "cpu"}, offload_optimizer={"device": "cpu"}),
                "optimizer": STILL,
            }
            for wish in ("auto", "never")
        },
        **{
            name: {
                **net("Net"),
                "data": {**POINTS, "train": {"_target_": f"own.{dataset}", "count": 22}, "loader": loader},
                "training": {"steps": 9},
                "checkpoint": {"every": 1},
            }
            for name, (dataset, loader, _) in BROKEN_OFF.items()
        },
        "monitored": {**net("Net"), "ds_config": {**ds(0), "csv_monitor": {"enabled": True}}},
        "hungry": {**net("Hungry"), "checkpoint": {"every": 2}},
        "llama": {"model": LLAMA, "ds_config": ds(3), "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}},
        **{f"{name}, whole": {**run, "checkpoint": {"every": 3, "keep_last": 0}} for name, run in PATHS.items()},
        **{
            f"{name}, resumed": {**run, "resume": f"{name}, whole/checkpoints/global_step3"}
            for name, run in PATHS.items()
        },
        **{
            f"{name}, other seed": {**run, "training": {"steps": 5, "log_every": 1, "seed": 1}}
            for name, run in PATHS.items()
        },
        **{name: run for name, (run, _) in REFUSED.items()},
    }
    said = train_all(directory, [{**shared, **run, "run_dir": name} for name, run in every.items()])
    return directory, dict(zip(every, said, strict=True))


def run_of(trained: Trained, name: str) -> Path:
    directory, said = trained
    assert said[name] is None, said[name]
    return directory / name


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def summary(run: Path) -> dict[str, Any]:
    return json.loads((run / "summary.json").read_text())


def weights(run: Path) -> dict[str, torch.Tensor]:
    """What a plain program gets of the run's last checkpoint."""
    output = run / "exported"
    if not output.exists():
        export.export(str(run), output, dtype="fp32", shard_size=2**30)
    return export.read(output / "model.safetensors")


def test_a_vision_transformer_learns_the_digits(trained: Trained) -> None:
    run = run_of(trained, "vit")
    assert summary(run)["accuracy"] > 0.9
    weights(run)
    model, test = export.load(run / "exported"), Digits(train=False)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(test.images), test.labels)
    assert float(loss) == pytest.approx(summary(run)["held_out_loss"], rel=0.03)


@pytest.mark.parametrize("name", [*FIRST_WEIGHTS, "touchy"])
def test_first_weights_and_buffers_are_the_same_with_zero_init_and_without(name: str, trained: Trained) -> None:
    sharded, whole = (
        run_of(trained, f"{name}, {wish}") for wish in ("auto" if name == "touchy" else "always", "never")
    )
    found, expected = weights(sharded), weights(whole)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
        assert value.isfinite().all() and value.abs().sum() > 0
    assert losses(sharded) == losses(whole)


def test_frozen_parameters_stay_as_they_are_and_are_exported(trained: Trained) -> None:
    first, last = weights(run_of(trained, "frozen")), weights(run_of(trained, "vit"))
    assert first.keys() == last.keys()
    torch.manual_seed(0)
    from runner.model.vit import ViT

    plain = ViT(image_size=8, patch_size=4, classes=10, layers=2, width=64, heads=4, expansion=2).state_dict()
    changed = {key for key, value in first.items() if not torch.equal(value, plain[key].bfloat16().float())}
    assert changed and not any(key.startswith("patches.") or key == "positions" for key in changed)


def test_autocast_keeps_float32_weights(trained: Trained) -> None:
    run = run_of(trained, "autocast")
    assert json.loads((run / "ds_config.json").read_text())["torch_autocast"] == {"enabled": True, "dtype": "bfloat16"}
    state = torch.load(next(run.rglob("mp_rank_00_model_states.pt")), weights_only=False)
    assert {value.dtype for value in state["module"].values()} == {torch.float32}
    assert losses(run)[-1] < losses(run)[0]


def test_a_transformers_model_learns_and_loads_where_it_came_from(trained: Trained) -> None:
    from transformers import AutoModelForCausalLM

    run = run_of(trained, "llama")
    assert losses(run)[-1] < losses(run)[0]
    weights(run)
    model = AutoModelForCausalLM.from_pretrained(run / "exported")
    ours = export.load(run / "exported")
    tokens = torch.arange(40)[None]
    assert torch.equal(model(tokens).logits, ours(tokens).logits)
    said = train_all(
        trained[0],
        [
            {
                "model": {**LLAMA, "config": None, "path": "llama/exported", "zero_init": "always"},
                "data": {"path": "text", "sequence_length": 16},
                "training": {"steps": 1},
                "optimizer": STILL,
                "ds_config": ds(3),
                "run_dir": "again",
            }
        ],
    )
    assert said == [None]
    assert summary(trained[0] / "again")["held_out_loss"] == pytest.approx(summary(run)["held_out_loss"], rel=1e-3)


def test_what_a_run_measured_is_in_its_directory_as_lines_and_as_a_picture(trained: Trained) -> None:
    run = run_of(trained, "monitored")
    line = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    assert {
        "step",
        "epoch",
        "loss",
        "lr",
        "gradient_norm",
        "loss_scale",
        "samples",
        "samples_per_second",
    } <= line.keys()
    assert line["memory_bytes"] > 0
    assert (run / "loss.png").read_bytes().startswith(b"\x89PNG")
    written = {path.name for path in (run / "monitor").rglob("*.csv")}
    assert {"Train_loss.csv", "Train_Samples_lr.csv", "Held-out_loss.csv"} <= written


def test_memory_that_runs_out_ends_with_what_to_change_and_the_last_checkpoint(trained: Trained) -> None:
    said = trained[1]["hungry"] or ""
    assert said.startswith("step 4: memory ran out: ")
    assert "help: lower ds_config.train_micro_batch_size_per_gpu" in said
    assert said.endswith("the last good checkpoint is " + str(trained[0] / "hungry" / "checkpoints" / "global_step2"))


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_samples_that_cannot_be_had_end_the_run_by_name(name: str, trained: Trained) -> None:
    said = trained[1][name] or ""
    assert re.match(BROKEN_OFF[name][2], said, re.DOTALL), said
    assert "Traceback" not in said
    saved = sorted((trained[0] / name / "checkpoints").glob("global_step*"))
    assert said.endswith(f"the last good checkpoint is {saved[-1]}") if saved else "checkpoint" not in said


@pytest.mark.parametrize("name", PATHS)
def test_the_order_depends_on_seed_and_position_alone(name: str, trained: Trained) -> None:
    whole = losses(run_of(trained, f"{name}, whole"))
    assert losses(run_of(trained, f"{name}, resumed")) == whole[3:]
    assert losses(run_of(trained, f"{name}, other seed")) != whole


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_or_dataset_that_cannot_be_is_refused_with_the_reason(name: str, trained: Trained) -> None:
    assert REFUSED[name][1] in (trained[1][name] or "")
