"""The account of memory: what it says of models, what it adds up, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from dsconf import DeepSpeedConfig
from dsconf.memory import (
    Batch,
    Machine,
    Model,
    ModelError,
    Parameter,
    SizeError,
    Transformer,
    World,
    account,
    parse_bytes,
    parse_count,
    parse_fraction,
)
from dsconf.memory.plan import plan, read_preset, whole_presets

GIB = 2**30
ADAM = {"type": "AdamW", "params": {"lr": 1e-4}}


def config(stage: int, **zero: object) -> DeepSpeedConfig:
    return DeepSpeedConfig(
        train_micro_batch_size_per_gpu=1,
        optimizer=ADAM,
        bf16={"enabled": True},
        zero_optimization={"stage": stage, **zero},
    )


@pytest.mark.parametrize(("stage", "published"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_states_of_the_zero_paper_are_reproduced(stage: int, published: float) -> None:
    """7.5B parameters on 64 ranks: 2 bytes of parameters, 2 of gradients and 12 of the rest, as each stage cuts them."""
    found = account(config(stage), Model("7.5B", (Parameter(7_500_000_000),)), World(8, 8), rank=0)
    states = found.components("between", "accelerator")
    held = states["parameters"] + states["master parameters"] + states["optimizer states"]
    # The paper has one 16-bit gradient for every parameter that a rank answers for.
    gradients = 2 * found.model.count // (64 if stage >= 2 else 1)
    assert (held + gradients) / 1e9 == pytest.approx(published, abs=0.05)


def test_a_rank_keeps_whole_what_straddles_its_border() -> None:
    model = Model("two", (Parameter(1000), Parameter(1000), Parameter(1000)))
    halves = account(config(2), model, World(1, 2), rank=0).components("norm", "accelerator")
    assert halves["gradients"] == 2 * 2000


def test_frozen_parameters_are_sharded_by_stage_3_only() -> None:
    model = Model("frozen", (Parameter(8_000_000, False), Parameter(8)))
    kept = [account(config(stage), model, World(1, 8)).components("between")["parameters"] for stage in (1, 2, 3)]
    assert kept[0] == kept[1] >= 16_000_000 > 7 * kept[2]


def test_a_module_on_the_meta_device_counts_tied_and_frozen_weights_exactly() -> None:
    with torch.device("meta"):
        embed = nn.Embedding(1000, 64)
        head = nn.Linear(64, 1000, bias=False)
    head.weight = embed.weight
    with torch.device("meta"):
        frozen = nn.Linear(64, 64)
    frozen.requires_grad_(False)
    model = Model.from_module(nn.Sequential(embed, frozen, head))
    assert (model.count, model.trainable_count) == (64_000 + 64 * 65, 64_000)


def test_a_module_of_70_billion_parameters_is_counted_on_the_meta_device() -> None:
    with torch.device("meta"):
        blocks = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(1043)))
    assert Model.from_module(blocks).count == 1043 * 8192**2


@pytest.mark.parametrize(
    ("values", "count"),
    [
        (
            {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008, "num_attention_heads": 32},
            6_738_415_616,
        ),
        ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}, 124_439_808),
        (
            {"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8},
            46_702_792_704,
        ),
    ],
    ids=["llama", "gpt2", "mixtral"],
)  # fmt: skip
def test_published_models_are_counted_to_the_last_parameter(tmp_path: Path, values: dict, count: int) -> None:
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert Model.from_directory(tmp_path).count == count


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (None, "no config.json"),
        ("[]", "not an object"),
        ("{", "config.json"),
        ('{"model_type": "unheard_of"}', "'unheard_of' is not one whose tensors are known"),
        ('{"model_type": "llama"}', "has no hidden_size"),
        ('{"model_type": "llama", "hidden_size": -1}', "hidden_size is -1"),
    ],
)
def test_a_directory_that_is_not_understood_is_refused(tmp_path: Path, values: str | None, says: str) -> None:
    if values is not None:
        (tmp_path / "config.json").write_text(values)
    with pytest.raises(ModelError, match=says):
        Model.from_directory(tmp_path)


@pytest.mark.parametrize("count", [1, 1000, 125_000_000, 7_000_000_000, 10**12])
def test_a_count_makes_a_model_of_exactly_that_size(count: int) -> None:
    assert Model.from_count(count).count == count


def test_a_trainable_share_is_a_share_of_the_whole() -> None:
    model = Model.from_count(7_000_000_000).with_trainable(0.005)
    assert (model.count, model.trainable_count) == (7_000_000_000, 35_000_000)


@pytest.mark.parametrize(
    ("text", "size"),
    [("7e9", 7_000_000_000), ("7B", 7_000_000_000), ("1.3B", 1_300_000_000), ("6738415616", 6_738_415_616)],
)
def test_counts_are_read(text: str, size: int) -> None:
    assert parse_count(text) == size


@pytest.mark.parametrize(
    ("text", "size"), [("80GiB", 80 * GIB), ("1.5TB", 1_500_000_000_000), ("24 GB", 24_000_000_000)]
)
def test_bytes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (parse_count, "0", "between 1 and"),
        (parse_count, "-7e9", "not a number of parameters"),
        (parse_count, "1e99", "between 1 and"),
        (parse_count, "0.5", "not a whole number"),
        (parse_count, "seven", "not a number of parameters"),
        (parse_bytes, "80", "no unit"),
        (parse_bytes, "80gib", "did you mean 80GiB"),
        (parse_bytes, "80G", "did you mean 80GB"),
        (parse_bytes, "80furlongs", "no unit 'furlongs'"),
        (parse_bytes, "0GiB", "no memory has that size"),
        (parse_bytes, "1e30TiB", "no memory has that size"),
        (parse_fraction, "0%", "above 0"),
        (parse_fraction, "120%", "at most 1"),
        (parse_fraction, "half", "not a share"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(read: object, text: str, says: str) -> None:
    with pytest.raises(SizeError, match=says):
        read(text)  # type: ignore[operator]


def test_checkpointing_keeps_one_block_and_the_inputs_of_the_others() -> None:
    model = Model.from_transformer(Transformer(4096, 32, 32_000, 11_008, 32, 32))
    whole, cut = (
        account(config(2), model, World(1, 8), Batch(2048, 1, checkpointing)).components("backward")["activations"]
        for checkpointing in (False, True)
    )
    unit = 2048 * 4096
    assert whole == pytest.approx(32 * 45.5 * unit, rel=0.01)
    assert cut == pytest.approx((32 * 2 + 45.5) * unit, rel=0.01)


def test_zero_init_spares_the_host_and_the_accelerator_the_whole_model() -> None:
    model = Model.from_count(7_000_000_000)
    whole, cut = (account(config(3), model, World(1, 8), zero_init=value) for value in (False, True))
    assert whole.bytes_at("build", "pageable") == 4 * model.count + 2 * model.largest_tensor
    assert cut.bytes_at("build", "pageable") == 0
    assert whole.bytes_at("layout", "accelerator") > 6 * cut.bytes_at("layout", "accelerator")


def test_pinned_blocks_are_rounded_up_to_powers_of_two() -> None:
    found = account(config(2, offload_optimizer={"device": "cpu"}), Model.from_count(7_000_000_000))
    assert found.pinned_bytes > found.persistent_bytes("pinned")
    pageable = account(
        config(2, offload_optimizer={"device": "cpu", "pin_memory": False}), Model.from_count(7_000_000_000)
    )
    assert pageable.pinned_bytes == 0


def test_the_largest_micro_batch_fits_and_one_more_does_not() -> None:
    model, machine = Model.from_count(7_000_000_000), Machine(80 * GIB, 1024 * GIB)
    presets = {name: read_preset(name) for name in whole_presets()}
    row = plan(presets, model, World(1, 8), machine, Batch(2048, 1)).recommended
    assert row is not None and row.largest_micro_batch
    for samples, fits in ((row.largest_micro_batch, True), (row.largest_micro_batch + 1, False)):
        again = plan({"it": read_preset(row.name)}, model, World(1, 8), machine, Batch(2048, samples))
        assert again.rows[0].fits is fits
