"""`checkpoint`: how checkpoints are saved and loaded."""

from typing import Annotated, Literal

from dsconf.models.block import FOLDED, Block, Int, key

_WRITER = "runtime/model_checkpointing/config.py"


class ParallelWrite(Block):
    """Share the writing of a checkpoint between ranks."""

    reader = "dict"

    pipeline_stage: bool = key(
        False,
        doc="Let the data-parallel ranks of a pipeline stage divide its layer files among themselves.",
        source="runtime/config.py:400",
    )


class Writer(Block):
    """The fast checkpoint engine; the mere presence of the block selects it.

    It works only under the `deepspeed` launcher, which sets the environment variables it needs.
    """

    reader = "dict"

    type: Annotated[Literal["fast", "python", "mock"], FOLDED] = key(
        "fast",
        doc="What writes the files: asynchronous I/O (`fast`), plain Python, or nothing at all (`mock`).",
        source=f"{_WRITER}:42",
    )
    io_buffer_size: Int = key(
        67108864, gt=0, doc="Bytes of the pinned buffer through which data flows to disk.", source=f"{_WRITER}:44"
    )
    io_buffer_double: bool = key(
        True, doc="Split that buffer in two, so that one half fills while the other drains.", source=f"{_WRITER}:46"
    )
    show_statistics: bool = key(False, doc="Print figures after every file written.", source=f"{_WRITER}:48")
    data_parallel: Annotated[Literal["replica", "socket", "machine"] | None, FOLDED] = key(
        None,
        doc="Share the writing: every data-parallel rank, one per CPU socket, or one per machine; null: rank 0 alone.",
        source=f"{_WRITER}:50",
    )
    decoupled: bool = key(False, doc="Write from a separate process while training goes on.", source=f"{_WRITER}:52")
    io_multiplier: Int = key(
        1, doc="Multiplies the number of parts into which the data is cut for the writers.", source=f"{_WRITER}:54"
    )


class Checkpoint(Block):
    """Saving and loading of checkpoints."""

    reader = "dict"

    tag_validation: Annotated[Literal["warn", "ignore", "fail"], FOLDED] = key(
        "warn", doc="What happens when ranks save under different tags.", source="runtime/config.py:388"
    )
    load_universal: bool = key(
        False,
        doc="Load a universal checkpoint, which fits any parallel layout, by way of the file `latest_universal`.",
        source="runtime/config.py:549",
    )
    use_node_local_storage: bool = key(
        False,
        doc="Every node writes and reads its own copy, for disks that nodes do not share.",
        source="runtime/config.py:552",
    )
    checkpoint_serialization: bool = key(
        True,
        doc="Save in PyTorch's zip format rather than the one before it.",
        source=f"{_WRITER}:70",
    )
    parallel_write: ParallelWrite | None = key(
        None, doc="Share the writing between ranks.", source="runtime/config.py:399"
    )
    writer: Writer | None = key(
        None, doc="Use the fast checkpoint engine; null: `torch.save`.", source=f"{_WRITER}:36", nullable=True
    )
