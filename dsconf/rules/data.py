"""Rules about `data_efficiency`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.rules.rule import Context, Finding, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound

_SAMPLING = ("data_efficiency", "data_sampling")
_CURRICULUM = (*_SAMPLING, "curriculum_learning")
_BATCHING = (*_SAMPLING, "dynamic_batching")
_LTD = ("data_efficiency", "data_routing", "random_ltd")

_METRIC: dict[str, Any] = {
    "difficulty_type": "value",
    "clustering_type": "single_cluster",
    "min_difficulty": 8,
    "max_difficulty": 64,
    "schedule_type": "fixed_linear",
    "schedule_config": {"total_curriculum_step": 1000, "difficulty_step": 8},
}
_DISCRETE: dict[str, Any] = {
    **_METRIC,
    "schedule_type": "fixed_discrete",
    "schedule_config": {"difficulty": [8, 16, 64], "max_step": [100, 200]},
}
_DROPPING: dict[str, Any] = {
    "enabled": True,
    "total_layer_num": 12,
    "random_ltd_layer_num": 0,
    "random_ltd_layer_id": [],
    "model_mask_name": None,
    "model_type": "decoder",
    "hidden_state_order": "batch_seq_dim",
    "random_ltd_schedule": {
        "min_value": 128,
        "max_value": 512,
        "schedule_type": "fixed_linear",
        "schedule_config": {"require_steps": 1000, "seq_per_step": 16},
    },
}

#: What the engine reads while it is built; the rest comes up when the script converts the model.
_SCHEDULER = ("total_layer_num", "random_ltd_layer_num", "random_ltd_schedule")


@rule(
    "DS937",
    "data-sampling-incomplete",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Dynamic batching is enabled, so max_tokens must be specified",
    reads=(".".join(_SAMPLING),),
    summary="Curriculum learning or dynamic batching without what it works by.",
    explanation="""Curriculum learning needs the metrics by which samples are easy or hard, dynamic batching the
    number of tokens that fill a batch. DeepSpeed refuses either without.""",
    source="runtime/data_pipeline/config.py:88",
    bad={"data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": True}}}},
    good={"data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": True, "max_tokens": 4096}}}},
)
def data_sampling_incomplete(bound: Bound, context: Context) -> Iterator[Finding]:
    efficiency = bound.config.data_efficiency
    sampling = efficiency.data_sampling if efficiency else None
    if sampling is None:
        return
    curriculum, batching = sampling.curriculum_learning, sampling.dynamic_batching
    if curriculum and curriculum.enabled and not bound.given(*_CURRICULUM, "curriculum_metrics"):
        yield Finding(
            (*_CURRICULUM, "curriculum_metrics"),
            "curriculum learning is enabled without `curriculum_metrics`",
            "add the metrics by which samples are easy or hard, or switch it off",
        )
    if batching and batching.enabled and not bound.given(*_BATCHING, "max_tokens"):
        yield Finding(
            (*_BATCHING, "max_tokens"),
            "dynamic batching is enabled without `max_tokens`",
            "add the number of tokens that fill a micro batch, or switch it off",
        )


@rule(
    "DS938",
    "random-ltd-incomplete",
    "error",
    "refused",
    phase="initialize",
    says="KeyError: 'random_ltd_layer_num'",
    reads=(".".join(_LTD),),
    summary="Random token dropping without a setting that it needs.",
    explanation="""Once `random_ltd` is enabled, its settings have no defaults. The engine reads them while it is built
    and fails with a KeyError; those about the layers it reads when the script calls `convert_to_random_ltd`.""",
    source="runtime/data_pipeline/data_routing/scheduler.py:42",
    bad={"data_efficiency": {"data_routing": {"random_ltd": {"enabled": True, "total_layer_num": 12}}}},
    good={"data_efficiency": {"data_routing": {"random_ltd": _DROPPING}}},
)
def random_ltd_incomplete(bound: Bound, context: Context) -> Iterator[Finding]:
    efficiency = bound.config.data_efficiency
    routing = efficiency.data_routing if efficiency else None
    dropping = routing.random_ltd if routing else None
    if dropping is None or not dropping.enabled:
        return
    absent = [name for name in _DROPPING if not bound.given(*_LTD, name)]
    if absent:
        words = ", ".join(f"`{name}`" for name in absent)
        first = any(name in _SCHEDULER for name in absent)
        yield Finding(
            _LTD,
            f"`random_ltd` is enabled without {words}",
            "add what is missing, or switch it off",
            phase="initialize" if first else "step",
        )
    elif len(dropping.random_ltd_layer_id) != dropping.random_ltd_layer_num:
        yield Finding(
            (*_LTD, "random_ltd_layer_num"),
            f"`random_ltd_layer_num` is {dropping.random_ltd_layer_num}, but `random_ltd_layer_id` lists "
            f"{len(dropping.random_ltd_layer_id)} layers",
            f"write {len(dropping.random_ltd_layer_id)}",
            at="value",
            phase="step",
        )


@rule(
    "DS939",
    "curriculum-incomplete",
    "error",
    "refused",
    phase="initialize",
    shown=False,
    reads=(".".join(_CURRICULUM),),
    summary="Curriculum learning that its sampler cannot work with.",
    explanation="""The sampler keeps lists of samples in `data_cluster_path`. A metric whose samples are clustered needs
    the index files that an analysis of the data left, and a discrete schedule one more level than steps, since the last
    level holds to the end. The engine fails on these when it is given `training_data`.""",
    source="runtime/data_pipeline/data_sampling/data_sampler.py:82",
    bad={
        "data_efficiency": {
            "data_sampling": {"curriculum_learning": {"enabled": True, "curriculum_metrics": {"seqlen": _METRIC}}}
        }
    },
    good={
        "data_efficiency": {
            "data_sampling": {
                "curriculum_learning": {
                    "enabled": True,
                    "data_cluster_path": "clusters",
                    "curriculum_metrics": {"seqlen": _DISCRETE},
                }
            }
        }
    },
)
def curriculum_incomplete(bound: Bound, context: Context) -> Iterator[Finding]:
    efficiency = bound.config.data_efficiency
    sampling = efficiency.data_sampling if efficiency else None
    curriculum = sampling.curriculum_learning if sampling else None
    if curriculum is None or not curriculum.enabled or not bound.given(*_CURRICULUM, "curriculum_metrics"):
        return
    if not bound.given(*_CURRICULUM, "data_cluster_path"):
        yield Finding(
            (*_CURRICULUM, "data_cluster_path"),
            "curriculum learning is enabled without `data_cluster_path`",
            "add a directory that all ranks see",
        )
    for name, metric in curriculum.curriculum_metrics.items():
        path = (*_CURRICULUM, "curriculum_metrics", name)
        if metric.schedule_type == "fixed_discrete":
            levels, steps = len(metric.schedule_config.difficulty), len(metric.schedule_config.max_step)
            if levels != steps + 1:
                yield Finding(
                    (*path, "schedule_config", "max_step"),
                    f"`difficulty` has {levels} levels and `max_step` {steps} steps; there must be one step less",
                    f"give `max_step` {levels - 1} steps",
                )
        if metric.clustering_type == "single_cluster":
            continue
        wanted = ("index_to_sample_path", *(["index_to_metric_path"] if metric.difficulty_type == "value" else []))
        for key in wanted:
            if not bound.given(*path, key):
                yield Finding(
                    (*path, key),
                    f"the metric `{name}` needs `{key}`, since its samples are clustered",
                    'add it, or write "clustering_type": "single_cluster"',
                )
