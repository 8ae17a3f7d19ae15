"""Rules about switches, profilers, monitors and the autotuner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Edit, Fix, Path, dotted
from dsconf.rules.rule import Context, Finding, remove, replace, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound

_SAMPLING = ("data_efficiency", "data_sampling")
_ROUTING = ("data_efficiency", "data_routing")

#: Blocks that are off unless they say `enabled`.
_SWITCHED: tuple[Path, ...] = (
    ("flops_profiler",),
    ("tensorboard",),
    ("wandb",),
    ("csv_monitor",),
    ("comet",),
    ("hybrid_engine",),
    ("expert_parallel",),
    (*_SAMPLING, "curriculum_learning"),
    (*_SAMPLING, "dynamic_batching"),
    (*_ROUTING, "random_ltd"),
)


@rule(
    "DS911",
    "enabled-absent",
    "error",
    "ignored",
    summary="A block with settings and without `enabled`.",
    explanation="""Most optional blocks are off unless `enabled` is true, however much else they hold. DeepSpeed
    says nothing about settings of a block that is off.""",
    source="profiling/config.py:29",
    bad={"csv_monitor": {"output_path": "logs"}},
    good={"csv_monitor": {"enabled": True, "output_path": "logs"}},
)
def enabled_absent(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    for path in _SWITCHED:
        node = bound.node(path)
        if isinstance(node, Object) and node.members and node.get("enabled") is None:
            switch = (*path, "enabled")
            yield Finding(
                path,
                f"`{dotted(path)}` has settings, but without `enabled` it is off",
                'add "enabled": true, or remove the block',
                fix=Fix('add "enabled": true', (Edit("add", switch, True),), safe=False),
            )


@rule(
    "DS912",
    "comms-logger-selection",
    "warning",
    "ignored",
    reads=("comms_logger",),
    summary="`prof_ops` of `comms_logger` that selects nothing.",
    explanation="""While `prof_all` is true, and it is unless switched off, every operation is logged and `prof_ops`
    has no say. With `prof_all` off and no `prof_ops`, nothing is logged.""",
    source="comm/comm.py:119",
    bad={"comms_logger": {"enabled": True, "prof_ops": ["all_reduce"]}},
    good={"comms_logger": {"enabled": True, "prof_all": False, "prof_ops": ["all_reduce"]}},
)
def comms_logger_selection(bound: Bound, context: Context) -> Iterator[Finding]:
    logger = bound.config.comms_logger
    if logger is None:
        return
    if logger.prof_all and logger.prof_ops:
        yield Finding(
            ("comms_logger", "prof_ops"),
            "`prof_ops` selects nothing while `prof_all` is true: every operation is logged",
            'add "prof_all": false, or remove `prof_ops`',
        )
    if not logger.prof_all and not logger.prof_ops:
        yield Finding(
            ("comms_logger", "prof_all"),
            "`prof_all` is false and `prof_ops` names no operation, so nothing is logged",
            'name operations in `prof_ops`, such as "all_reduce", or remove `prof_all`',
            effect="advice",
        )


@rule(
    "DS913",
    "breakdown-on-with-profiler",
    "warning",
    "ignored",
    reads=("wall_clock_breakdown", "flops_profiler"),
    summary="`wall_clock_breakdown: false` beside a profiler.",
    explanation="""`flops_profiler.enabled` switches `wall_clock_breakdown` on, for every step and not for the
    profiled one only. Timing waits for the device and slows training down.""",
    source="runtime/config.py:533",
    bad={"wall_clock_breakdown": False, "flops_profiler": {"enabled": True}},
    good={"flops_profiler": {"enabled": True}},
)
def breakdown_on_with_profiler(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    profiler = config.flops_profiler
    if profiler and profiler.enabled and bound.given("wall_clock_breakdown") and not config.wall_clock_breakdown:
        yield Finding(
            ("wall_clock_breakdown",),
            "`flops_profiler` is enabled and switches `wall_clock_breakdown` on, in every step",
            "switch the profiler off when its report is no longer needed",
            at="value",
        )


@rule(
    "DS914",
    "autotuning-ends-the-run",
    "warning",
    "refused",
    phase="step",
    says="SystemExit: None",
    reads=("autotuning",),
    summary="`autotuning.enabled` ends the process.",
    explanation="""An engine that finds the block enabled takes itself for one experiment of the autotuner: it
    profiles, writes its figures and exits one step after `end_profile_step`, whoever started it.""",
    source="runtime/engine.py:3657",
    bad={"autotuning": {"enabled": True, "start_profile_step": 1, "end_profile_step": 1}},
    good={"autotuning": {"enabled": False, "start_profile_step": 1, "end_profile_step": 1}},
)
def autotuning_ends_the_run(bound: Bound, context: Context) -> Iterator[Finding]:
    tuning = bound.config.autotuning
    if tuning and tuning.enabled:
        yield Finding(
            ("autotuning", "enabled"),
            f"`autotuning` is enabled: the process exits after step {tuning.end_profile_step + 1}",
            "switch it off for training; it is for runs under `deepspeed --autotuning`",
            at="value",
        )


@rule(
    "DS915",
    "autotuning-keeps-the-slowest",
    "error",
    "advice",
    reads=("autotuning",),
    summary="An autotuning metric that is better when smaller.",
    explanation="""The autotuner ranks experiments by their metric and keeps the greatest. Of a duration that is
    the slowest configuration.""",
    source="autotuning/autotuner.py:726",
    bad={"autotuning": {"metric": "latency"}},
    good={"autotuning": {"metric": "throughput"}},
)
def autotuning_keeps_the_slowest(bound: Bound, context: Context) -> Iterator[Finding]:
    tuning = bound.config.autotuning
    if tuning and tuning.metric not in ("throughput", "FLOPS_per_gpu"):
        path = ("autotuning", "metric")
        yield Finding(
            path,
            f"the autotuner keeps the configuration with the greatest `{tuning.metric}`, which is the slowest",
            'write "throughput"',
            at="value",
            fix=replace(path, "throughput", 'write "throughput"', safe=False),
        )


#: Monitors and the packages they import.
_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "comet": "comet_ml"}


@rule(
    "DS916",
    "monitor-needs-package",
    "info",
    "refused",
    phase="initialize",
    shown=False,
    reads=("tensorboard", "wandb", "comet"),
    summary="A monitor that needs a package of its own.",
    explanation="""DeepSpeed does not install what its monitors write with. Where the package is missing, rank 0
    fails while the engine is built, and the other ranks may wait for it.""",
    source="monitor/utils.py:13",
    bad={"wandb": {"enabled": True}},
    good={"csv_monitor": {"enabled": True}},
)
def monitor_needs_package(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    monitors = {"tensorboard": config.tensorboard, "wandb": config.wandb, "comet": config.comet}
    for name, monitor in monitors.items():
        if monitor and monitor.enabled:
            yield Finding(
                (name, "enabled"),
                f"`{name}` needs the package `{_PACKAGES[name]}` on the machine of rank 0",
                f"install `{_PACKAGES[name]}` there",
            )


@rule(
    "DS917",
    "activation-checkpointing-by-script",
    "info",
    "ignored",
    summary="`activation_checkpointing` waits for the script.",
    explanation="""`deepspeed.initialize` does not act on the block. It counts when the script calls
    `deepspeed.checkpointing.configure` with the file and the model calls `deepspeed.checkpointing.checkpoint`;
    PyTorch's and Transformers' own checkpointing do not read it.""",
    source="runtime/activation_checkpointing/checkpointing.py:1125",
    bad={"activation_checkpointing": {"cpu_checkpointing": True}},
    good={},
)
def activation_checkpointing_by_script(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    if isinstance(bound.node(("activation_checkpointing",)), Object):
        yield Finding(
            ("activation_checkpointing",),
            "`activation_checkpointing` has no effect unless the script calls `deepspeed.checkpointing.configure`",
            "call it in the script, or remove the block",
        )


@rule(
    "DS918",
    "enabled-unread",
    "error",
    "ignored",
    reads=("data_efficiency", "weight_quantization"),
    summary="An `enabled` that does not decide.",
    explanation="""Nothing reads `enabled` of `data_efficiency`, its `data_sampling` and its `data_routing`, nor of
    `weight_quantization` and `comms_logger`. What is inside data efficiency has switches of its own, which count
    whatever stands around them; the other two are on by being there.""",
    source="runtime/engine.py:1415",
    bad={"data_efficiency": {"enabled": True, "data_routing": {"random_ltd": {"enabled": False}}}},
    good={"data_efficiency": {"data_routing": {"random_ltd": {"enabled": False}}}},
)
def enabled_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    efficiency = config.data_efficiency
    sampling = efficiency.data_sampling if efficiency else None
    routing = efficiency.data_routing if efficiency else None
    curriculum = sampling.curriculum_learning if sampling else None
    batching = sampling.dynamic_batching if sampling else None
    dropping = routing.random_ltd if routing else None
    samples = any((curriculum and curriculum.enabled, batching and batching.enabled))
    routes = bool(dropping and dropping.enabled)
    quantization = config.weight_quantization
    quantizes = bool(quantization and (quantization.quantized_initialization or quantization.post_init_quant))
    logger = config.comms_logger
    for block, said, acts, inside in (
        (("data_efficiency",), efficiency and efficiency.enabled, samples or routes, "a block inside"),
        (_SAMPLING, sampling and sampling.enabled, samples, "`curriculum_learning` or `dynamic_batching`"),
        (_ROUTING, routing and routing.enabled, routes, "`random_ltd`"),
        (("weight_quantization",), quantization and quantization.enabled, quantizes, "a block inside"),
        (("comms_logger",), logger and logger.enabled, True, ""),
    ):
        path = (*block, "enabled")
        if said is None or not bound.given(*path) or (block == ("comms_logger",) and not said):
            continue
        name = dotted(path)
        fix = remove(path, "remove it")
        if said and acts:
            yield Finding(
                path, f"nothing reads `{name}`; what it belongs to is on without it", severity="info", fix=fix
            )
        elif said:
            yield Finding(
                path,
                f"`{name}` is true, but nothing reads it, and {inside} has to be switched on",
                f"switch on {inside}, or remove it",
            )
        elif acts:
            yield Finding(
                path,
                f"`{name}` is false, but nothing reads it: what is inside stays on",
                "switch off what is inside",
            )
        else:
            yield Finding(path, f"nothing reads `{name}`", severity="info", fix=fix)
