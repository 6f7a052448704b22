"""A training on each GPU that asks memreel about itself at ten moments, in three ways (`ways.py`), and compares.

memreel record --metrics 127.0.0.1:9464 -o FILE -- torchrun --nproc-per-node N watched.py

At a moment nothing runs, so what PyTorch has reserved, and what the driver says that is used, is what each way must say within
PATIENCE seconds. Each moment is a line, with the seconds that each way took to say so; the process ends with 1 if one differs.
ASK=0 trains alone, for the times of a step.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import distributed, nn

RANK = int(os.environ["RANK"])
ASKS = os.environ.get("ASK") != "0"
N_MOMENTS = 10
# More than what PyTorch may have left over, which would serve the first.
BLOCK_BYTES = 256 << 20
# More than the longest pause between two readings, which is 5 s.
PATIENCE = 15


def ask(way, expected, begun):
    """Asks until the answer is the expected one. Returns the last answer, and the seconds since the moment."""
    while True:
        try:
            answer = way(os.getpid(), RANK)
        except OSError as error:
            answer = {"error": str(error)}
        took = time.monotonic() - begun
        if answer == expected or took > PATIENCE:
            return answer, took
        time.sleep(0.01)


def compare(moment, ways, threads):
    """Asks in all ways at once. Returns the seconds that each took; None for one whose answer differs."""
    begun = time.monotonic()
    reserved = torch.cuda.memory_stats()["reserved_bytes.all.current"]
    free, total = torch.cuda.mem_get_info()
    expected = {"reserved": reserved, "used": total - free}
    asked = {name: threads.submit(ask, way, expected, begun) for name, way in ways.items()}
    answers = {name: answer.result() for name, answer in asked.items()}
    lags = {name: round(took, 3) if answer == expected else None for name, (answer, took) in answers.items()}
    wrong = {name: answer for name, (answer, _) in answers.items() if answer != expected}
    print(json.dumps({"rank": RANK, "moment": moment, "torch": expected, "lag_s": lags, "wrong": wrong}), flush=True)
    return expected, lags


def train(n_steps, model, optimizer):
    """Returns the milliseconds of each step."""
    times_ms = []
    for _ in range(n_steps):
        begun = time.perf_counter()
        optimizer.zero_grad()
        model(torch.randn(512, 2048, device="cuda")).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        times_ms.append(1000 * (time.perf_counter() - begun))
    return times_ms


def begin_asking():
    """Returns the server of the page, if this rank has started it, and the ways to ask."""
    import ways

    processes = [None] * distributed.get_world_size()
    distributed.all_gather_object(processes, os.getpid())
    page = ways.Page(processes) if RANK == 0 else None
    address = [page and page.address]
    distributed.broadcast_object_list(address, src=0)
    return page, {"watch": ways.watch, "metrics": ways.metrics, "live": ways.live(address[0])}


def summary(compared):
    """Prints how often each way was right, and how long it took. Returns how often one was wrong."""
    n_wrong = 0
    for name in compared[0][1]:
        lags = sorted(lags[name] for _, lags in compared if lags[name] is not None)
        middle, longest = (lags[len(lags) // 2], lags[-1]) if lags else (None, None)
        row = {"rank": RANK, "way": name, "equal": len(lags), "of": len(compared)}
        print(json.dumps({**row, "median_lag_s": middle, "longest_lag_s": longest}), flush=True)
        n_wrong += len(compared) - len(lags)
    # Figures that stay as they were prove nothing.
    n_figures = len({expected["reserved"] for expected, _ in compared})
    if n_figures < len(compared):
        print(json.dumps({"rank": RANK, "failed": f"{len(compared)} moments have {n_figures} figures"}), flush=True)
    return n_wrong + (n_figures < len(compared))


def main():
    torch.cuda.set_device(RANK)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", RANK))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda())
    optimizer = torch.optim.Adam(model.parameters())
    train(20, model, optimizer)
    page, ways = begin_asking() if ASKS else (None, {})
    kept, times_ms, compared = [], [], []
    with ThreadPoolExecutor(3) as threads:
        for moment in range(N_MOMENTS):
            times_ms += train(100, model, optimizer)
            # A leak, so that no two moments have equal figures.
            kept.append(torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda"))
            distributed.barrier()
            torch.cuda.synchronize()
            if ASKS:
                compared.append(compare(moment, ways, threads))
            distributed.barrier()
    times_ms.sort()
    times = {"median_ms": times_ms[len(times_ms) // 2], "fastest_ms": times_ms[0], "slowest_ms": times_ms[-1]}
    print(json.dumps({"rank": RANK, "watched": ASKS, **{name: round(of, 3) for name, of in times.items()}}), flush=True)
    n_wrong = summary(compared) if ASKS else 0
    if page is not None:
        page.end()
    distributed.destroy_process_group()
    return n_wrong > 0


sys.exit(main())
