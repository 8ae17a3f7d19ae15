"""Learning-rate curves of real runs against their closed forms, and optimizers that the run brings itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import settings
from runner.checkpoint import changes
from runner.errors import UsageError
from tests.many_runs import train_all

STEPS, PEAK, WARMUP = 12, 0.01, 3
#: 2 sequences a step make an epoch 5 steps.
TEXT = bytes(range(32, 122)) * 2


def zero(stage: int, **more: Any) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, **more},
    }


OFFLOAD = {"offload_optimizer": {"device": "cpu"}}
FP16 = {"bf16": {"enabled": False}, "fp16": {"enabled": True, "initial_scale_power": 34, "hysteresis": 1}}


def risen(step: int) -> float:
    return PEAK * (step + 1) / (WARMUP + 1)


def cosine(step: int) -> float:
    return risen(step) if step < 3 else PEAK * 0.5 * (1 + math.cos(math.pi * (step - 3) / 9))


def linear(step: int) -> float:
    return risen(step) if step < 3 else PEAK * (0.1 + 0.9 * (12 - step) / 9)


def constant(step: int) -> float:
    return risen(step) if step < 3 else PEAK


def wsd(step: int) -> float:
    return risen(step) if step < 3 else PEAK if step < 8 else PEAK * (12 - step) / 4


def cosine_of_deepspeed(step: int) -> float:
    # It starts from 0 and is one step late.
    late = max(0, step - 1)
    return PEAK * late / 3 if late < 3 else PEAK * 0.5 * (1 + math.cos(math.pi * (late - 2) / 9))


def halved_each_epoch(step: int) -> float:
    return PEAK * 0.5 ** (2 * step // EPOCH)


Curve = Callable[[int], float]
EPOCH = 10


def ours(name: str, **params: Any) -> dict[str, Any]:
    return {"type": f"runner.schedules.{name}", "params": {"warmup_num_steps": WARMUP, **params}}


def torchs(name: str, **params: Any) -> dict[str, Any]:
    return {"type": f"torch.optim.lr_scheduler.{name}", "params": params}


COSINE = ours("cosine", total_num_steps=STEPS)
ADAMW = {"type": "torch.optim.AdamW", "params": {"lr": PEAK}}
SGD = {"type": "torch.optim.SGD", "params": {"lr": PEAK}}

RUNS: dict[str, tuple[dict[str, Any], Curve]] = {
    "linear": ({"scheduler": ours("linear", total_num_steps=STEPS, min_ratio=0.1)}, linear),
    "constant": ({"scheduler": ours("constant")}, constant),
    "wsd": ({"scheduler": ours("wsd", total_num_steps=STEPS, decay_num_steps=4)}, wsd),
    "torch by name": ({"scheduler": torchs("ExponentialLR", gamma=0.5)}, lambda step: PEAK * 0.5**step),
    "of DeepSpeed": (
        {
            "scheduler": {
                "type": "WarmupCosineLR",
                "params": {
                    "total_num_steps": STEPS,
                    "warmup_num_steps": WARMUP,
                    "warmup_type": "linear",
                    "cos_min_ratio": 0.0,
                },
            }
        },
        cosine_of_deepspeed,
    ),
    "each epoch": (
        {"scheduler": {**torchs("ExponentialLR", gamma=0.5), "interval": "epoch"}},
        halved_each_epoch,
    ),
    "accumulating": (
        {"scheduler": COSINE, "ds_config": {**zero(2), "gradient_accumulation_steps": 3}},
        cosine,
    ),
    **{
        f"stage {stage}{' offloaded' if more else ''}": (
            {"scheduler": COSINE, "ds_config": zero(stage, **more)},
            cosine,
        )
        for stage, more in [(0, {}), (1, {}), (2, {}), (3, {}), (1, OFFLOAD), (2, OFFLOAD), (3, OFFLOAD)]
    },
    **{
        f"client optimizer, stage {stage}": (
            {"scheduler": COSINE, "optimizer": ADAMW, "ds_config": zero(stage)},
            cosine,
        )
        for stage in (0, 2, 3)
    },
    "client optimizer, offloaded": (
        {
            "scheduler": COSINE,
            "optimizer": SGD,
            "ds_config": {
                **zero(3, **OFFLOAD),
                "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,
            },
        },
        cosine,
    ),
}
SKIPPING = {f"fp16, stage {stage}": {"scheduler": COSINE, "ds_config": {**zero(stage), **FP16}} for stage in (1, 2, 3)}
RESUMED = {
    "torch": {"scheduler": torchs("CosineAnnealingLR", T_max=STEPS), "ds_config": zero(2, **OFFLOAD)},
    "epoch": {"scheduler": {**torchs("ExponentialLR", gamma=0.5), "interval": "epoch"}, "ds_config": zero(3)},
    "plateau": {
        "scheduler": {**torchs("ReduceLROnPlateau", patience=0, threshold=10.0), "interval": "epoch"},
        "optimizer": ADAMW,
    },
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "untested": ({"optimizer": SGD}, "zero_allow_untested_optimizer=true"),
    "no such optimizer": ({"optimizer": {"type": "torch.optim.AdamX"}}, "did you mean torch.optim.Adam"),
    "no such module": ({"optimizer": {"type": "nowhere.Best"}}, "there is no module nowhere"),
    "no such argument": ({"scheduler": torchs("StepLR", steps=3)}, "it takes step_size"),
    "no such value": ({"optimizer": {"type": "torch.optim.AdamW", "params": {"lr": -1.0}}}, "Invalid learning rate"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str | None]]:
    """The directory that has those of all runs, by name, and what each run said that ended early."""
    directory = tmp_path_factory.mktemp("schedules")
    (directory / "text").write_bytes(TEXT)
    shared: dict[str, Any] = {
        "data": {"path": "text", "sequence_length": 16},
        "training": {"steps": STEPS, "log_every": 1},
        "checkpoint": {"every": 0},
        "ds_config": zero(2),
    }
    every = {
        **{name: run for name, (run, _) in RUNS.items()},
        **SKIPPING,
        **{name: run for name, (run, _) in REFUSED.items()},
        **{f"{name}, whole": {**run, "checkpoint": {"every": 7, "keep_last": 0}} for name, run in RESUMED.items()},
        **{
            f"{name}, resumed": {**run, "resume": f"{name}, whole/checkpoints/global_step7"}
            for name, run in RESUMED.items()
        },
    }
    said = train_all(directory, [{**shared, **run, "run_dir": name} for name, run in every.items()])
    return directory, dict(zip(every, said, strict=True))


Trained = tuple[Path, dict[str, "str | None"]]


def rates(trained: Trained, name: str) -> list[float]:
    directory, said = trained
    assert said[name] is None, said[name]
    lines = [json.loads(line) for line in (directory / name / "metrics.jsonl").read_text().splitlines()]
    return [line["lr"] for line in lines if "loss" in line]


@pytest.mark.parametrize("name", RUNS)
def test_a_learning_rate_follows_its_closed_form(name: str, trained: Trained) -> None:
    assert rates(trained, name) == pytest.approx([RUNS[name][1](step) for step in range(STEPS)], abs=1e-9)


@pytest.mark.parametrize("name", SKIPPING)
def test_a_step_that_fp16_skips_does_not_move_the_learning_rate_on(name: str, trained: Trained) -> None:
    found = rates(trained, name)
    skipped = found.count(risen(0)) - 1
    assert 0 < skipped < STEPS
    assert found == pytest.approx([cosine(max(0, step - skipped)) for step in range(STEPS)], abs=1e-9)


@pytest.mark.parametrize("name", RESUMED)
def test_a_learning_rate_goes_on_from_a_checkpoint(name: str, trained: Trained) -> None:
    whole = rates(trained, f"{name}, whole")
    assert rates(trained, f"{name}, resumed") == whole[7:]
    assert len(set(whole)) > 1


@pytest.mark.parametrize("name", REFUSED)
def test_an_optimizer_or_schedule_that_cannot_be_is_refused_with_the_remedy(name: str, trained: Trained) -> None:
    assert REFUSED[name][1] in (trained[1][name] or "")


def test_a_schedule_that_watches_the_loss_is_moved_on_by_the_epoch() -> None:
    values = {"type": "torch.optim.lr_scheduler.ReduceLROnPlateau"}
    with pytest.raises(UsageError, match="interval=epoch it is shown the held-out loss"):
        settings.read({"scheduler": values})
    with pytest.raises(UsageError, match="DeepSpeed moves its own WarmupLR on"):
        settings.read({"scheduler": {"type": "WarmupLR", "interval": "epoch"}})


@pytest.mark.parametrize(
    ("before", "now", "allowed"),
    [
        (COSINE, ours("cosine", total_num_steps=2 * STEPS), True),
        (COSINE, ours("wsd", total_num_steps=STEPS, decay_num_steps=4), True),
        (COSINE, {"type": "WarmupLR", "params": {}}, False),
        (COSINE, {**COSINE, "interval": "epoch"}, False),
        (COSINE, None, True),
        (None, COSINE, False),
        (torchs("StepLR", step_size=3), torchs("StepLR", step_size=4), False),
    ],
)
def test_only_a_schedule_whose_new_values_take_effect_may_change_on_resume(
    before: dict[str, Any] | None, now: dict[str, Any] | None, allowed: bool
) -> None:
    found = changes.compare({"scheduler": before}, {"scheduler": now})
    assert found
    assert all(change.why_not is None for change in found) == allowed
