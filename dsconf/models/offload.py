"""`zero_optimization.offload_param` and `zero_optimization.offload_optimizer`, told apart by `device`."""

from typing import Annotated, Literal

from pydantic import Field

from dsconf.models.block import Block, Float, Int, key

_NVME_PATH = "Directory on the NVMe drive for the swap files; it carries no job name, so give each job its own."
_PIN_MEMORY = "Keep the host copies in page-locked memory: faster transfers, memory that cannot be paged out."


class NoParamOffload(Block):
    """Parameters stay on the accelerator."""

    tag = "device"
    device: Literal["none"] = key("none", doc="Where parameters live.", source="runtime/zero/offload_config.py:24")


class CpuParamOffload(Block):
    """Parameters live in host memory and are fetched when a layer needs them."""

    tag = "device"
    device: Literal["cpu"] = key(doc="Where parameters live.", source="runtime/zero/offload_config.py:24")
    pin_memory: bool = key(True, doc=_PIN_MEMORY, source="runtime/zero/offload_config.py:45")


class NvmeParamOffload(Block):
    """Parameters live in files on an NVMe drive and are fetched when a layer needs them."""

    tag = "device"
    device: Literal["nvme"] = key(doc="Where parameters live.", source="runtime/zero/offload_config.py:24")
    nvme_path: str = key(doc=_NVME_PATH, source="runtime/zero/offload_config.py:30")
    buffer_count: Int = key(
        5, ge=1, doc="Number of host buffers that parameters pass through.", source="runtime/zero/offload_config.py:33"
    )
    buffer_size: Int = key(
        100_000_000,
        ge=0,
        doc="Size of each buffer in elements; at least the largest parameter's share of a rank.",
        source="runtime/zero/offload_config.py:36",
    )
    max_in_cpu: Int = key(
        1_000_000_000,
        ge=0,
        doc="Number of parameter elements that may stay in host memory instead of going to the drive.",
        source="runtime/zero/offload_config.py:39",
    )
    pin_memory: bool = key(True, doc=_PIN_MEMORY, source="runtime/zero/offload_config.py:45")


class NoOptimizerOffload(Block):
    """Optimizer states stay on the accelerator."""

    tag = "device"
    device: Literal["none"] = key(
        "none", doc="Where optimizer states live.", source="runtime/zero/offload_config.py:58"
    )


class CpuOptimizerOffload(Block):
    """Optimizer states and the optimizer step move to the host (stages 1 and 2)."""

    tag = "device"
    device: Literal["cpu"] = key(doc="Where optimizer states live.", source="runtime/zero/offload_config.py:58")
    pin_memory: bool = key(True, doc=_PIN_MEMORY, source="runtime/zero/offload_config.py:75")


class CpuOptimizerOffload3(CpuOptimizerOffload):
    """Optimizer states and the optimizer step move to the host (stage 3)."""

    ratio: Float = key(
        1.0,
        ge=0.0,
        le=1.0,
        doc="Share of the optimizer states that is offloaded; below 1 the rest stays on the accelerator.",
        source="runtime/zero/offload_config.py:99",
    )
    super_offload: bool = key(
        False,
        doc="Use the offload engine written for superchips, where CPU and GPU share a fast link.",
        source="runtime/zero/offload_config.py:102",
    )
    cpuadam_cores_perc: Float = key(
        0.8,
        ge=0.0,
        le=1.0,
        doc="Share of the CPU cores given to the optimizer step under `super_offload`.",
        source="runtime/zero/offload_config.py:105",
    )


class NvmeOptimizerOffload(Block):
    """Optimizer states live in files on an NVMe drive; the step runs on the host (stage 3)."""

    tag = "device"
    device: Literal["nvme"] = key(doc="Where optimizer states live.", source="runtime/zero/offload_config.py:58")
    nvme_path: str = key(doc=_NVME_PATH, source="runtime/zero/offload_config.py:64")
    buffer_count: Int = key(
        4,
        ge=0,
        doc="Number of host buffers; Adam needs four (parameter, gradient, two moments), twice that with pipelining.",
        source="runtime/zero/offload_config.py:67",
    )
    pin_memory: bool = key(True, doc=_PIN_MEMORY, source="runtime/zero/offload_config.py:75")
    pipeline_read: bool = key(
        False, doc="Read the next tile while the current one is computed.", source="runtime/zero/offload_config.py:84"
    )
    pipeline_write: bool = key(
        False,
        doc="Write the previous tile while the current one is computed.",
        source="runtime/zero/offload_config.py:90",
    )
    fast_init: bool = key(
        False, doc="Skip reading back what was just written at start-up.", source="runtime/zero/offload_config.py:96"
    )
    ratio: Float = key(
        1.0,
        ge=0.0,
        le=1.0,
        doc="Share of the optimizer states that is offloaded; below 1 the rest stays on the accelerator.",
        source="runtime/zero/offload_config.py:99",
    )


ParamOffload = Annotated[NoParamOffload | CpuParamOffload | NvmeParamOffload, Field(discriminator="device")]
OptimizerOffload = Annotated[NoOptimizerOffload | CpuOptimizerOffload, Field(discriminator="device")]
OptimizerOffload3 = Annotated[
    NoOptimizerOffload | CpuOptimizerOffload3 | NvmeOptimizerOffload, Field(discriminator="device")
]
