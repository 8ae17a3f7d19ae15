# scikit-learn leaves its types out; they end here.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Images of handwritten digits, which come with scikit-learn."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset

from runner.errors import CannotStart


class Digits(Dataset[tuple[Tensor, Tensor]]):
    """1,797 images of 8 by 8 pixels: every fifth to test on (`train` false), the others to train on.

    An item is an image, float32 [1, 8, 8] in 0 to 1, and the digit, int64 []. Raises CannotStart without scikit-learn.
    """

    def __init__(self, *, train: bool) -> None:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise CannotStart(
                "data: scikit-learn, which has the digits, is not installed: pip install 'dsconf[vision]'"
            ) from None
        raw = cast(Any, load_digits())
        images = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 16
        labels = torch.tensor(raw.target, dtype=torch.int64)
        part = (torch.arange(len(images)) % 5 != 4) == train
        self.images, self.labels = images[part], labels[part]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]
