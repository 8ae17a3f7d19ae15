"""No rank outlives the others.

Rank 0 holds a connection to every other rank, on which each says how far it is, and how it ends. The system closes it
when a process ends, however it ends, so that rank 0 and through it all others know at once. What a rank is told by the
collectives of its backend comes later, with NCCL only after minutes, and not which rank it was that kept all waiting.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar, cast

from runner import failure, logs
from runner.errors import CannotStart

T = TypeVar("T")

#: Seconds in which a rank may end by itself once the run is lost, before it is ended.
_GRACE = 2.0

#: What a rank says: it has come a part of a step further. Before it ends: its work is done; or it is not, and people
#: know why.
_FURTHER, _DONE, _EXPLAINED = b"f", b"d", b"e"

#: Seconds for a connection to be made.
_TIMEOUT = 60

_joined: _Lifeline | None = None


def join(rank: int, world_size: int, share: Callable[[tuple[int, bytes]], tuple[int, bytes]]) -> None:
    """Connect with the other ranks; all call it together. `share` gives all of them what rank 0 puts in."""
    global _joined
    if world_size > 1 and _joined is None:
        _joined = _Lifeline(_lead(world_size, share) if rank == 0 else _follow(rank, share))


def leave() -> None:
    """This rank has done all its work, and the others may go on without it."""
    if _joined is not None:
        _joined.say(_DONE)


def fail() -> bool:
    """This rank ends before its time, and people have been told why; the others will end too. Whether there are any."""
    if _joined is not None:
        _joined.say(_EXPLAINED)
    return _joined is not None


def go_on() -> None:
    """This rank has come a part of a step further, of which all ranks have the same."""
    if _joined is not None:
        _joined.go_on()


def behind() -> list[int]:
    """The ranks that have come less far than this one; known to rank 0 alone."""
    return [] if _joined is None else _joined.behind()


class _Lifeline:
    def __init__(self, peers: dict[socket.socket, int]) -> None:
        self._peers = peers
        self._left = False
        self._reached = 0
        self._reached_by = dict.fromkeys(peers.values(), 0)
        threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    def say(self, word: bytes) -> None:
        self._left = True
        self._say(word)

    def go_on(self) -> None:
        self._reached += 1
        if 0 in self._reached_by:
            self._say(_FURTHER)

    def behind(self) -> list[int]:
        return sorted(rank for rank, reached in self._reached_by.items() if rank and reached < self._reached)

    def _say(self, word: bytes) -> None:
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.sendall(word)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for peer in self._peers:
                selector.register(peer, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    peer = cast(socket.socket, key.fileobj)
                    try:
                        word = peer.recv(1)
                    except OSError:
                        word = b""
                    if word == _FURTHER:
                        self._reached_by[self._peers[peer]] += 1
                        continue
                    selector.unregister(peer)
                    if word != _DONE and not self._left:
                        self._lost(self._peers[peer], explained=word == _EXPLAINED)
                        return

    def _lost(self, rank: int, *, explained: bool) -> None:
        if not explained:
            failure.first(f"error: rank {rank} ended without a word: it was killed, or memory ran out on its host")
        self.say(_EXPLAINED)
        if explained and logs.alone():
            # What it does now may be what the others have waited for; a launcher ends it before long.
            faulthandler.dump_traceback(all_threads=True)
        time.sleep(_GRACE)
        os._exit(1)


def _lead(world_size: int, share: Callable[[tuple[int, bytes]], tuple[int, bytes]]) -> dict[socket.socket, int]:
    peers: dict[socket.socket, int] = {}
    key = secrets.token_bytes(16)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    with socket.create_server(("", 0), family=family, backlog=world_size, dualstack_ipv6=both) as server:
        server.settimeout(_TIMEOUT)
        share((server.getsockname()[1], key))
        while len(peers) < world_size - 1:
            peer = server.accept()[0]
            peer.settimeout(_TIMEOUT)
            greeting = peer.recv(len(key) + 4, socket.MSG_WAITALL)
            # Whoever else knocks at the port is none of the run.
            if greeting[:-4] == key:
                peer.settimeout(None)
                peers[peer] = int.from_bytes(greeting[-4:], "big")
    return peers


def _follow(rank: int, share: Callable[[tuple[int, bytes]], tuple[int, bytes]]) -> dict[socket.socket, int]:
    port, key = share((0, b""))
    address = os.environ["MASTER_ADDR"]
    try:
        peer = socket.create_connection((address, port), timeout=_TIMEOUT)
        peer.sendall(key + rank.to_bytes(4, "big"))
    except OSError as error:
        raise CannotStart(f"rank {rank} cannot reach rank 0 at {address}, port {port}: {error}") from None
    peer.settimeout(None)
    return {peer: 0}
