"""Programs that end in every way. usage: trouble.py oom|abort|killed|fork|spawn|threads"""

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

MIB = 1 << 20


def some(n, mib=8):
    return [torch.ones(mib * MIB // 4, device="cuda") for _ in range(n)]


def child(n):
    kept = some(n)
    torch.cuda.synchronize()
    print("child", os.getpid(), len(kept))


def main(way):
    if way in ("fork", "spawn"):
        # A child of `fork` may use CUDA if its parent did not.
        context = multiprocessing.get_context(way)
        children = [context.Process(target=child, args=(n,)) for n in (3, 5)]
        [c.start() for c in children]
        [c.join() for c in children]
        assert all(c.exitcode == 0 for c in children)
        return some(2)
    if way == "threads":
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda n: some(n, 2), range(1, 33)))
    kept = some(20)
    if way == "oom":
        try:
            kept.append(torch.empty(1 << 40, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError as error:
            print(str(error)[:100])
    if way == "abort":
        os.abort()
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return kept


if __name__ == "__main__":
    kept = main(sys.argv[1])
