"""`timers`: the throughput timer."""

from dsconf.models.block import Block, key


class Throughput(Block):
    """Measure samples per second."""

    enabled: bool = key(True, doc="Measure.", source="utils/config.py:38")
    synchronized: bool = key(
        True,
        doc="Wait for the device at each measurement: exact, but it costs time.",
        source="utils/config.py:41",
    )


class Timers(Block):
    """The engine's timers."""

    reader = "dict"

    throughput: Throughput | None = key(None, doc="The throughput timer.", source="utils/config.py:28")
