"""`comms_logger`: sizes and times of collective operations."""

from dsconf.models.block import Block, key


class CommsLogger(Block):
    """Log how much each collective moved and how long it took.

    The presence of the block switches logging on, whatever `enabled` says, and every collective then waits for
    the device.
    """

    enabled: bool = key(
        False,
        dead=True,
        doc="Meant as the switch, but unread: `false` leaves logging on.",
        source="comm/config.py:12",
    )
    prof_all: bool = key(True, doc="Log every operation.", source="comm/config.py:13")
    prof_ops: list[str] = key(
        [], doc="Names of the operations to log when `prof_all` is false.", source="comm/config.py:14"
    )
    verbose: bool = key(False, doc="Print every operation as it happens.", source="comm/config.py:15")
    debug: bool = key(False, doc="Add the calling function to each operation's name.", source="comm/config.py:16")
