"""A small vision transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ViT(nn.Module):
    """Classifies square images of one channel, cut into square patches."""

    def __init__(
        self, *, image_size: int, patch_size: int, classes: int, layers: int, width: int, heads: int, expansion: int = 4
    ) -> None:
        """Raises ValueError if the sizes do not go together."""
        if image_size % patch_size:
            raise ValueError(f"image_size {image_size} must be a multiple of patch_size {patch_size}")
        if width % heads:
            raise ValueError(f"width {width} must be a multiple of the number of heads, {heads}")
        super().__init__()
        patches = (image_size // patch_size) ** 2
        self.patches = nn.Conv2d(1, width, patch_size, stride=patch_size)
        self.positions = nn.Parameter(torch.randn(patches, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(width, heads, expansion * width, 0.0), activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """The logits, [batch, classes], of images, [batch, 1, image size, image size]."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))
