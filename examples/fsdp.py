"""A training with FSDP, a process for each GPU. Rank 1 keeps its predictions, which it does not need."""

import os

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

RANK = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(RANK)
distributed.init_process_group("nccl", device_id=torch.device("cuda", RANK))


def layer():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))


model = nn.Sequential(*[layer() for _ in range(4)]).cuda()
for part in model:
    fully_shard(part)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())

kept = []
for _ in range(10):
    batch = torch.randn(4096, 1024, device="cuda")
    prediction = model(batch)
    (prediction - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if RANK == 1:
        kept.append(prediction.detach())
distributed.destroy_process_group()
