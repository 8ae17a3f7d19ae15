"""What the validator finds, where, and that it finds everything at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsconf import validate
from dsconf.check import check
from dsconf.diagnostic import Diagnostic
from dsconf.rules.rule import Context
from dsconf.source import read_text


def found(text: str, world_size: int | None = None) -> list[Diagnostic]:
    """Warnings and errors of a text."""
    report = check(read_text(text, "ds_config.json"), Context(world_size=world_size))
    return [item for item in report.diagnostics if item.severity != "info"]


def rows(text: str, world_size: int | None = None) -> list[tuple[str, str, str]]:
    """Code, severity and pointer of each finding."""
    return [(item.code, item.severity, item.pointer) for item in found(text, world_size)]


def one(body: str, world_size: int | None = None) -> tuple[str, str, str]:
    """The only finding in a file that is sound but for `body`."""
    (row,) = rows(whole(body), world_size)
    return row


def whole(body: str) -> str:
    """A file that is sound but for `body`."""
    precision = "" if "16" in body else '"bf16": {"enabled": false}, '
    return '{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, %s%s}' % (precision, body)


def test_all_problems_are_reported_at_once_in_file_order() -> None:
    text = """{
  "fp16": {"enabled": 17},
  "train_micro_batch_size_per_gpu": 0,
  "zero_optimization": {"stage": 3, "allgather_bucket_size": 1000, "offload_param": {"device": "nvme"}},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9]}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}
}"""
    assert rows(text) == [
        ("DS201", "error", "/fp16/enabled"),
        ("DS202", "error", "/train_micro_batch_size_per_gpu"),
        ("DS301", "error", "/zero_optimization/allgather_bucket_size"),
        ("DS404", "error", "/zero_optimization/offload_param/nvme_path"),
        ("DS201", "error", "/optimizer/params/betas"),
        ("DS202", "error", "/scheduler/params/warmup_num_steps"),
    ]


def test_positions_are_those_of_the_wrong_token_in_code_points() -> None:
    text = '{\n  "train_micro_batch_size_per_gpu": 2,\n\t/* Größe */ "steps_per_print": 0\n}'
    (item,) = found(text)
    assert item.location and item.end_location
    assert (item.location.line, item.location.column) == (3, 33)
    assert text[item.location.offset : item.end_location.offset] == "0"


def test_a_missing_key_points_at_the_block_that_lacks_it() -> None:
    text = '{"train_batch_size": 1, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}'
    item = next(item for item in found(text) if item.code == "DS404")
    assert item.location and item.end_location
    assert text[item.location.offset : item.end_location.offset] == '"offload_optimizer"'


@pytest.mark.parametrize(
    ("body", "row"),
    [
        ('"gradient_cliping": 1', ("DS101", "error", "/gradient_cliping")),
        ('"zero_optimization": {"stage": 2, "overlap_com": true}', ("DS101", "error", "/zero_optimization/overlap_com")),
        ('"offload_optimizer": {"device": "cpu"}', ("DS102", "error", "/offload_optimizer")),
        ('"zero_optimization": {"stage": 3, "aio": {}}', ("DS102", "error", "/zero_optimization/aio")),
        ('"zero3_init_flag": true', ("DS102", "error", "/zero3_init_flag")),
        ('"stage": 3', ("DS102", "error", "/stage")),
        ('"zero_optimization": {"stage": 3, "stage": 2}', ("DS103", "error", "/zero_optimization/stage")),
        ('"amp": {"enabled": false}', ("DS104", "error", "/amp")),
        ('"zero_optimization": {"stage": 3, "mics_shard_size": 8}', ("DS104", "error", "/zero_optimization/mics_shard_size")),
        ('"zero_optimization": true', ("DS105", "warning", "/zero_optimization")),
        ('"zero_optimization": {"stage": 2, "cpu_offload": true}', ("DS105", "warning", "/zero_optimization/cpu_offload")),
        ('"fp32_allreduce": true', ("DS108", "error", "/fp32_allreduce")),
        ('"bf16": {"enabled": "true"}', ("DS205", "warning", "/bf16/enabled")),
        ('"prescale_gradients": "false"', ("DS204", "error", "/prescale_gradients")),
        ('"wall_clock_breakdown": "false"', ("DS204", "error", "/wall_clock_breakdown")),
        ('"fp16": true', ("DS201", "error", "/fp16")),
        ('"scheduler": null', ("DS201", "error", "/scheduler")),
        ('"zero_optimization": {"stage": 5}', ("DS203", "error", "/zero_optimization/stage")),
        ('"zero_optimization": {"stage": [2, 3]}', ("DS203", "error", "/zero_optimization/stage")),
        ('"zero_optimization": {"stage": "3"}', ("DS205", "warning", "/zero_optimization/stage")),
        ('"communication_data_type": "bfp16"', ("DS203", "error", "/communication_data_type")),
        ('"zero_optimization": {"stage": 2, "reduce_bucket_size": 5.5}', ("DS201", "error", "/zero_optimization/reduce_bucket_size")),
        ('"zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"}', ("DS201", "error", "/zero_optimization/reduce_bucket_size")),
        ('"zero_optimization": {"reduce_bucket_size": 5e8}', ("DS304", "error", "/zero_optimization/reduce_bucket_size")),
        ('"zero_optimization": {"stage": 1, "sub_group_size": 1e9}', ("DS303", "error", "/zero_optimization/sub_group_size")),
        ('"zero_optimization": {"stage": 3, "reduce_scatter": true}', ("DS306", "warning", "/zero_optimization/reduce_scatter")),
        ('"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}', ("DS401", "error", "/zero_optimization/offload_param")),
        ('"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}', ("DS402", "error", "/zero_optimization/offload_optimizer")),
        ('"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme"}}', ("DS403", "error", "/zero_optimization/offload_optimizer/device")),
        ('"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "nvme_path": "/x"}}', ("DS405", "warning", "/zero_optimization/offload_param/nvme_path")),
        ('"optimizer": {"type": "sgd", "params": {"lr": 1}}', ("DS701", "error", "/optimizer/type")),
        ('"optimizer": {"type": "Lamb", "params": {"lr": 1}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}', ("DS407", "error", "/optimizer/type")),
        ('"optimizer": {"type": "AdamW"}', ("DS704", "warning", "/optimizer/params/lr")),
        ('"scheduler": {"type": "warmuplr", "params": {}}', ("DS801", "error", "/scheduler/type")),
        ('"gradient_predivide_factor": 0', ("DS905", "error", "/gradient_predivide_factor")),
    ],
)  # fmt: skip
def test_one_problem_gives_one_diagnostic(body: str, row: tuple[str, str, str]) -> None:
    assert one(body) == row


@pytest.mark.parametrize(
    "body",
    [
        '"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu", "pin_memory": false}}',
        '"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7}',
        '"zero_optimization": {"stage": 2.0}',
        '"optimizer": {"type": "adamw", "params": {"lr": 1e-4}}',
        '"optimizer": {"type": "NAdam", "params": {"lr": 1e-4}}',
        '"_comment": "for the small cluster", "$schema": "https://example.org/s.json"',
        '"communication_data_type": "FP16"',
        '"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 1e-3}}',
        '"bf16": {"enabled": true}, "fp16": {"enabled": false}',
        '"aio": null',
    ],
)
def test_sound_settings_pass(body: str) -> None:
    assert rows(whole(body)) == []


def test_a_file_full_of_auto_gives_one_diagnostic_that_names_the_others() -> None:
    text = """{"train_batch_size": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}"""
    (item,) = found(text)
    assert item.code == "DS110"
    assert [place.path[-1] for place in item.related] == ["gradient_clipping", "enabled", "reduce_bucket_size"]


@pytest.mark.parametrize(
    ("numbers", "world_size", "row"),
    [
        ('"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1', 4, None),
        ('"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1', 2, "DS603"),
        ('"train_batch_size": 8', 3, "DS603"),
        ('"train_batch_size": 8', 8, None),
        ('"train_batch_size": 8, "gradient_accumulation_steps": 3', None, "DS602"),
        ('"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2', 8, "DS603"),
        ('"gradient_accumulation_steps": 3', None, "DS601"),
        ('"train_micro_batch_size_per_gpu": null', None, "DS601"),
        ('"train_batch_size": 8', None, None),
    ],
)
def test_the_batch_triad(numbers: str, world_size: int | None, row: str | None) -> None:
    assert [code for code, _, _ in rows("{%s}" % numbers, world_size)] == ([row] if row else [])


def test_a_value_that_swallowed_its_line_is_named_as_such() -> None:
    text = '{\n  "train_micro_batch_size_per_gpu": 2,\n  "zero_optimization": {\n    "stage": two # per node\n  }\n}'
    (item,) = found(text)
    assert (item.code, item.location and item.location.line) == ("DS004", 4)


def test_did_you_mean_comes_with_a_fix_by_path() -> None:
    (item,) = found('{"train_micro_batch_size_per_gpu": 2, "gradient_acumulation_steps": 8}')
    assert item.help == "did you mean `gradient_accumulation_steps`?"
    assert item.fix and item.fix.edits[0].op == "move"
    assert item.fix.edits[0].path == ("gradient_accumulation_steps",)


def test_a_missing_key_and_a_misspelt_one_are_one_problem() -> None:
    text = """{"train_micro_batch_size_per_gpu": 2, "scheduler": {"type": "WarmupDecayLR",
    "params": {"total_num_step": 10, "warmup_num_steps": 2, "warmup_max_lr": 1}}}"""
    assert [code for code, _, _ in rows(text)] == ["DS804"]


@given(
    total=st.integers(1, 300),
    micro=st.integers(1, 40),
    steps=st.none() | st.integers(1, 12),
    world_size=st.none() | st.integers(1, 16),
)
def test_each_way_out_of_a_batch_contradiction_leads_out(
    total: int, micro: int, steps: int | None, world_size: int | None
) -> None:
    config = {"train_batch_size": total, "train_micro_batch_size_per_gpu": micro, "gradient_clipping": 1.0}
    if steps is not None:
        config["gradient_accumulation_steps"] = steps
    for item in validate(config, world_size=world_size):
        if item.code in ("DS602", "DS603"):
            assert item.fix is not None
            for fix in (item.fix, *item.alternatives):
                (edit,) = fix.edits
                mended = {**config, edit.path[0]: edit.value}
                assert not [left for left in validate(mended, world_size=world_size) if left.severity == "error"]
