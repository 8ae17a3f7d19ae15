"""The models know what the installed DeepSpeed knows, and the comparison that says so sees every kind of difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proof.drift import differences, drift
from proof.keys import Key, Side, deepspeed, models

BUCKET = ("zero_optimization", "reduce_bucket_size")


def test_every_difference_from_deepspeed_is_intended() -> None:
    assert [str(item) for item in drift()] == []


@pytest.fixture(scope="module")
def installed() -> Side:
    return deepspeed()


@pytest.fixture(scope="module")
def known(installed: Side) -> set[str]:
    return {str(item) for item in differences(models(), installed)}


def with_new_key(side: Side) -> None:
    side.keys[("zero_optimization", "stage4")] = Key(frozenset({"bool"}))


def with_new_spelling(side: Side) -> None:
    side.spellings[("zero_optimization", "bucket")] = "reduce_bucket_size"


def without_key(side: Side) -> None:
    del side.keys[("aio", "queue_depth")]


def without_optimizer_argument(side: Side) -> None:
    del side.keys[("optimizer", "params", "SGD", "dampening")]


def with_other_default(side: Side) -> None:
    side.keys[BUCKET].defaults = (1,)


def with_other_type(side: Side) -> None:
    side.keys[BUCKET].kinds = frozenset({"str"})


def with_other_bound(side: Side) -> None:
    side.keys[BUCKET].bounds = {"ge": 8}


def with_other_choices(side: Side) -> None:
    side.keys[("zero_optimization", "stage")].choices = frozenset({0, 1, 2, 3, 4})


def with_open_block(side: Side) -> None:
    side.closed.remove(("fp16",))


def without_old_spelling(side: Side) -> None:
    del side.spellings[("zero_optimization", "cpu_offload")]


def with_revived_key(side: Side) -> None:
    side.keys[("zero_one_adam",)] = Key()


@pytest.mark.parametrize(
    ("change", "path", "aspect"),
    [
        (with_new_key, "zero_optimization.stage4", "missing"),
        (with_new_spelling, "zero_optimization.bucket", "missing"),
        (without_key, "aio.queue_depth", "surplus"),
        (without_optimizer_argument, "optimizer.params.SGD.dampening", "surplus"),
        (with_other_default, "zero_optimization.reduce_bucket_size", "default"),
        (with_other_type, "zero_optimization.reduce_bucket_size", "type"),
        (with_other_bound, "zero_optimization.reduce_bucket_size", "bounds"),
        (with_other_choices, "zero_optimization.stage", "choices"),
        (with_open_block, "fp16", "reader"),
        (without_old_spelling, "zero_optimization.cpu_offload", "status"),
        (with_revived_key, "zero_one_adam", "status"),
    ],
)
def test_a_change_in_deepspeed_is_a_difference(
    change: Callable[[Side], None], path: str, aspect: str, installed: Side, known: set[str]
) -> None:
    theirs = replace(
        installed,
        keys={name: replace(key) for name, key in installed.keys.items()},
        closed=set(installed.closed),
        spellings=dict(installed.spellings),
    )
    change(theirs)
    found = [item for item in differences(models(), theirs) if str(item) not in known]
    assert [(".".join(item.path), item.aspect) for item in found] == [(path, aspect)]
