"""`aio`: how tensors move to and from NVMe."""

from dsconf.models.block import Block, Int, Retired, key


class Aio(Block):
    """The queues through which tensors travel to and from NVMe.

    Read by NVMe offload and by the `fast` checkpoint writer; without either, the block has no effect.
    """

    reader = "dict"
    retired = (
        Retired(
            "thread_count",
            "dead",
            "runtime/swap_tensor/aio_config.py:29",
            becomes="intra_op_parallelism",
            advice="The name changed between 0.16.0 and 0.16.9; the old one is skipped and one thread is used.",
        ),
    )

    block_size: Int = key(
        1048576,
        gt=0,
        doc="Bytes that one I/O request moves; tensors smaller than this (or than 1 MiB) are never swapped.",
        source="runtime/swap_tensor/aio_config.py:25",
    )
    queue_depth: Int = key(
        8,
        gt=0,
        doc="How many requests each thread keeps in flight.",
        source="runtime/swap_tensor/aio_config.py:27",
    )
    intra_op_parallelism: Int = key(
        1,
        gt=0,
        doc="How many threads share one read or write.",
        source="runtime/swap_tensor/aio_config.py:29",
    )
    single_submit: bool = key(
        False,
        doc="Hand requests to the kernel one at a time instead of a queue at a time.",
        source="runtime/swap_tensor/aio_config.py:31",
    )
    overlap_events: bool = key(
        True,
        doc="Submit new requests while earlier ones are still finishing.",
        source="runtime/swap_tensor/aio_config.py:33",
    )
    use_gds: bool = key(
        False,
        doc="Move data between NVMe and GPU memory directly (GPUDirect Storage, CUDA only), past host memory.",
        source="runtime/swap_tensor/aio_config.py:35",
    )
