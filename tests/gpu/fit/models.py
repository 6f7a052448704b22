"""The programs that are predicted: each function returns a module, the loss of a batch, a batch and an optimizer."""

import os
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = os.environ.get("FIT_DEVICE", "cuda")
N_WORDS, LENGTH, N = 8000, 512, 1024
adamw = partial(torch.optim.AdamW, lr=1e-4)


def moved(model):
    """Moves a model to the device; that of a run without memory is there."""
    return model if next(model.parameters()).device.type == DEVICE else model.to(DEVICE)


def images(size, pixels):
    return torch.randn(size, 3, pixels, pixels, device=DEVICE), torch.randint(0, 1000, (size,), device=DEVICE)


def words(size, n_words):
    return torch.randint(0, n_words, (size, LENGTH), device=DEVICE)


def vit(size):
    """A vision transformer, under autocast."""
    from torchvision.models import VisionTransformer

    with torch.device(DEVICE):
        model = VisionTransformer(384, 16, num_layers=4, num_heads=12, hidden_dim=768, mlp_dim=3072)

    def loss(batch):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return F.cross_entropy(model(batch[0]), batch[1])

    return model, loss, partial(images, size, 384), adamw


class Residual(nn.Module):
    """Two convolutions of a U-Net, and the time between them."""

    def __init__(self, n_in, n_out, n_time):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, n_in), nn.GroupNorm(8, n_out)])
        self.convs = nn.ModuleList([nn.Conv2d(n_in, n_out, 3, padding=1), nn.Conv2d(n_out, n_out, 3, padding=1)])
        self.time = nn.Linear(n_time, n_out)
        self.skip = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x, time):
        y = self.convs[0](F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.convs[1](F.silu(self.norms[1](y)))


class Attention(nn.Module):
    """Attention between the positions of a sequence."""

    def __init__(self, n, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm, self.into, self.out = nn.LayerNorm(n), nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x):
        parts = self.into(self.norm(x)).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return x + self.out(y.transpose(1, 2).flatten(2))


class UNet(nn.Module):
    """A U-Net that predicts the noise of an image."""

    def __init__(self, n):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, n, 3, padding=1), nn.Conv2d(n, 3, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(1, 4 * n), nn.SiLU(), nn.Linear(4 * n, 4 * n))
        levels = [(n, n), (n, 2 * n), (2 * n, 4 * n)]
        self.down = nn.ModuleList([Residual(a, b, 4 * n) for a, b in levels])
        self.attention = Attention(4 * n, 4)
        self.up = nn.ModuleList([Residual(2 * b, a, 4 * n) for a, b in levels])

    def forward(self, x, time):
        time, x, skips = self.time(time), self.first(x), []
        for block in self.down:
            x = block(x, time)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.attention(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        for block in reversed(self.up):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), skips.pop()], 1), time)
        return self.last(x)


def unet(size):
    """A diffusion U-Net."""
    with torch.device(DEVICE):
        model = UNet(128)

    def loss(batch):
        noise = torch.randn_like(batch[0])
        time = torch.rand(len(noise), 1, device=noise.device)
        return F.mse_loss(model(batch[0] + noise * time[:, :, None, None], time), noise)

    return model, loss, partial(images, size, 128), adamw


class Experts(nn.Module):
    """A mixture of experts, two for each token: the data decides how many tokens an expert has."""

    def __init__(self, n, n_experts):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(n), nn.Linear(n, n_experts)
        expert = lambda: nn.Sequential(nn.Linear(n, 4 * n), nn.SiLU(), nn.Linear(4 * n, n))
        self.experts = nn.ModuleList([expert() for _ in range(n_experts)])

    def forward(self, x):
        tokens = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(-1).topk(2)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(tokens[rows]) * weights[rows, places, None])
        return x + out.view_as(x)


class Tokens(nn.Module):
    """A model of tokens, with the blocks that it is given."""

    def __init__(self, blocks):
        super().__init__()
        self.words, self.blocks, self.head = nn.Embedding(N_WORDS, N), nn.ModuleList(blocks), nn.Linear(N, N_WORDS)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def next_word_loss(model, x):
    return F.cross_entropy(model(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten())


def moe(size):
    """A model of tokens whose blocks are mixtures of experts."""
    with torch.device(DEVICE):
        model = Tokens([block for _ in range(4) for block in (Attention(N, 16), Experts(N, 8))])
    return model, partial(next_word_loss, model), partial(words, size, N_WORDS), adamw


def llama(size):
    """The LLaMA whose largest size was found by bisection."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 10}
    config = LlamaConfig(vocab_size=32000, num_attention_heads=16, num_key_value_heads=8, **shape)
    model = moved(LlamaForCausalLM(config))

    def loss(x):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return model(input_ids=x, labels=x).loss

    return model, loss, partial(words, size, 32000), adamw


def resnet50(size):
    """The ResNet-50 whose largest size was found by bisection."""
    import torchvision

    model = moved(torchvision.models.resnet50())
    loss = lambda batch: F.cross_entropy(model(batch[0]), batch[1])
    return model, loss, partial(images, size, 224), partial(torch.optim.SGD, lr=0.01, momentum=0.9)
