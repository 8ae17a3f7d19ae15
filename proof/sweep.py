"""Configurations of every kind, drawn at random: what people combine, and mistakes made in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from proof.agree import Case
from proof.mutate import Tree, mutated

_BUCKETS = (0, 1, 2, 1000, 4096, 200_000_000, 500_000_000, 2_000_000_000, 5e8, 2e8, 5e5 + 1)

_OPTIMIZERS: tuple[Tree, ...] = (
    {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
    {"type": "Adam", "params": {"lr": 0.001, "adam_w_mode": False}},
    {"type": "adam", "params": {"lr": 0.001, "torch_adam": True}},
    {"type": "SGD", "params": {"lr": 0.01, "momentum": 0.9}},
    {"type": "Adagrad", "params": {"lr": 0.01}},
    {"type": "Muon", "params": {"lr": 0.02, "momentum": 0.95}},
    {"type": "RMSprop", "params": {"lr": 0.01}},
    {"type": "NAdam", "params": {"lr": 0.002}},
)

#: Those that need a GPU unless they are offloaded.
_CPU_OPTIMIZERS: tuple[Tree, ...] = ({"type": "Lion", "params": {"lr": 0.0001}},)

_SCHEDULERS: tuple[Tree, ...] = (
    {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 10}},
    {"type": "WarmupDecayLR", "params": {"total_num_steps": 100, "warmup_max_lr": 0.001, "warmup_num_steps": 10}},
    {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}},
    {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001, "cycle_momentum": False}},
    {"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.0001}},
    {"type": "StepLR", "params": {"step_size": 10}},
    {"type": "CosineAnnealingLR", "params": {"T_max": 100}},
)

_PRECISIONS: tuple[Tree, ...] = (
    {},
    {},
    {"bf16": {"enabled": True}},
    {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 8}},
    {"fp16": {"enabled": True, "loss_scale": 128}},
    {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}},
)

_EXTRAS: tuple[Tree, ...] = (
    {"gradient_clipping": 0.5},
    {"gradient_clipping": 0},
    {"prescale_gradients": True},
    {"gradient_predivide_factor": 2.0},
    {"communication_data_type": "fp32"},
    {"data_types": {"grad_accum_dtype": "fp32"}},
    {"steps_per_print": 100},
    {"wall_clock_breakdown": True},
    {"activation_checkpointing": {"partition_activations": True}},
    {"zero_allow_untested_optimizer": True},
    {"aio": {"block_size": 1048576, "queue_depth": 8}},
    {"flops_profiler": {"enabled": False, "profile_step": 1}},
    {"checkpoint": {"tag_validation": "Warn"}},
    {"csv_monitor": {"enabled": True, "output_path": "metrics"}},
    {"comms_logger": {"enabled": False}},
)


def sweep(count: int, seed: int) -> Iterator[Case]:
    """So many configurations; the same ones for the same seed. About half of them have a mistake or two."""
    random = Random(seed)
    for number in range(count):
        config = combination(random)
        if random.random() < 0.6:
            config = mutated(config, random, random.choice((1, 1, 2)))
        yield Case(f"{number}: {json.dumps(config)}", json.dumps(config).encode())


def combination(random: Random) -> Tree:
    """One choice of everything, each of which works by itself."""
    config: Tree = {"train_micro_batch_size_per_gpu": random.choice((1, 2))}
    if random.random() < 0.3:
        config["gradient_accumulation_steps"] = random.choice((1, 2))
    if random.random() < 0.85:
        config["zero_optimization"] = _zero(random)
    offloaded = config.get("zero_optimization", {}).get("offload_optimizer", {}).get("device") == "cpu"
    if random.random() < 0.8:
        config["optimizer"] = random.choice((*_OPTIMIZERS, *_CPU_OPTIMIZERS) if offloaded else _OPTIMIZERS)
    if random.random() < 0.5:
        config["scheduler"] = random.choice(_SCHEDULERS)
    config |= random.choice(_PRECISIONS)
    for extra in random.sample(_EXTRAS, random.choice((0, 1, 2))):
        config |= extra
    return json.loads(json.dumps(config))


def _zero(random: Random) -> Tree:
    stage = random.choice((0, 1, 2, 2, 3, 3))
    block: dict[str, Any] = {"stage": stage}
    if stage and random.random() < 0.4:
        block["offload_optimizer"] = {"device": random.choice(("cpu", "cpu", "none")), "pin_memory": False}
    if stage == 3 and random.random() < 0.4:
        block["offload_param"] = {"device": random.choice(("cpu", "none"))}
    buckets = ["reduce_bucket_size"] if stage else []
    buckets += ["allgather_bucket_size"] if stage in (1, 2) else []
    buckets += (
        ["stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters"]
        if stage == 3
        else []
    )
    for name in buckets:
        if random.random() < 0.4:
            block[name] = random.choice(_BUCKETS)
    switches = ["overlap_comm", "contiguous_gradients", "reduce_scatter"] if stage else []
    for name in switches:
        if random.random() < 0.25:
            block[name] = random.choice((True, False))
    return block
