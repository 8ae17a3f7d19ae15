"""The bytes of tensors that are alive."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch


def live_bytes() -> int:
    """Bytes of the storages of all live tensors of this process, each counted once."""
    gc.collect()
    sizes: dict[int, int] = {}
    kinds = {torch.Tensor, *_below(torch.Tensor)}
    # By the type itself: to ask some of DeepSpeed's and torch's objects for their class makes them warn.
    for item in [item for item in gc.get_objects() if type(item) in kinds]:
        for tensor in (item, item.grad if item.is_leaf else None):
            if tensor is not None and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                sizes[storage.data_ptr()] = max(sizes.get(storage.data_ptr(), 0), storage.nbytes())
    sizes.pop(0, None)
    return sum(sizes.values())


def _below(kind: type) -> Iterator[type]:
    for each in type.__subclasses__(kind):
        yield each
        yield from _below(each)
