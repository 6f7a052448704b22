"""A transformer as it is, and with each of four changes that `memreel fit` predicts from the one as it is."""

from functools import partial

import torch
from models import DEVICE, N_WORDS, Attention, N, Tokens, adamw, next_word_loss, words
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# The options that predict each change.
CHANGES = {
    "one_checkpoint": ("--free-after-use", "first_block (changed.py"),
    "checkpoints": ("--free-after-use", "_block (changed.py"),
    "bf16_noise": ("--scale", "noise (changed.py=0.5"),
    "unwatched": ("--without", "watch (changed.py"),
}


class Block(nn.Module):
    """A block of the model that is changed."""

    def __init__(self, noise_dtype):
        super().__init__()
        self.attention, self.norm, self.noise_dtype = Attention(N, 16), nn.LayerNorm(N), noise_dtype
        self.up, self.down = nn.Linear(N, 4 * N), nn.Linear(4 * N, N)

    def forward(self, x):
        x = self.attention(x)
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden * noise(hidden, self.noise_dtype))


def noise(x, dtype):
    return torch.rand(x.shape, dtype=dtype, device=x.device)


def watch(x):
    return x.detach().double()


def first_block(block, x, is_freed):
    return checkpoint(block, x, use_reentrant=False) if is_freed else block(x)


def other_block(block, x, is_freed):
    return checkpoint(block, x, use_reentrant=False) if is_freed else block(x)


class Changed(Tokens):
    """A transformer, as it is or with one change."""

    def __init__(self, change):
        dtype = torch.bfloat16 if change == "bf16_noise" else torch.float32
        super().__init__([Block(dtype) for _ in range(8)])
        self.change, self.watched = change, []

    def forward(self, x):
        x, self.watched = self.words(x), []
        for number, block in enumerate(self.blocks):
            if number == 0:
                x = first_block(block, x, self.change in ("one_checkpoint", "checkpoints"))
            else:
                x = other_block(block, x, self.change == "checkpoints")
            if self.change != "unwatched":
                self.watched.append(watch(x))
        return self.head(x)


def changed(size, change=None):
    with torch.device(DEVICE):
        model = Changed(change)
    return model, partial(next_word_loss, model), partial(words, size, N_WORDS), adamw
