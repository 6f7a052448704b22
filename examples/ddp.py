"""A training with DDP, a process for each GPU, whose batches come from two workers of a DataLoader."""

import os

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = DataLoader(TensorDataset(torch.randn(4096, 1024)), batch_size=512, num_workers=2, pin_memory=True)
    for (batch,) in batches:
        batch = batch.cuda(non_blocking=True)
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
