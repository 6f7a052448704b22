"""A program that `memreel attach` attaches to: `program.py KIND FOLDER`. It goes on until there is a file FOLDER/stop."""

import os
import sys
import threading
import time

kind, folder = sys.argv[1:]
names = sorted(vars(sys))
if kind != "plain":
    import torch
# These begin with five blocks, of 512 KiB each.
if kind not in ("plain", "late"):
    torch.cuda._lazy_init()
    kept = [torch.alloc(512 << 10) for _ in range(5)]
if kind == "recording":
    torch.cuda.memory._record_memory_history(max_entries=99)


def is_over():
    return os.path.exists(os.path.join(folder, "stop"))


def step():
    address = torch.alloc(1 << 20)
    for _ in range(1000):
        pass
    torch.free(address)


def until_the_end():
    while not is_over():
        time.sleep(0.01)


print("ready", flush=True)
if kind == "locked":
    thread = threading.Thread(target=until_the_end)
    thread.start()
    thread.join()
elif kind == "asleep":
    while not is_over():
        time.sleep(3)
elif kind == "held":
    # One call of C that has the interpreter's lock all the time.
    while not is_over():
        sum(range(300_000_000))
elif kind == "late":
    while not os.path.exists(os.path.join(folder, "begin")):
        time.sleep(0.01)
    torch.cuda._lazy_init()
    while not is_over():
        step()
elif kind == "plain":
    until_the_end()
else:
    while not is_over():
        step()
        if kind == "forks" and os.fork() == 0:
            sys.exit(0)
        while kind == "forks":
            try:
                if os.waitpid(-1, 0) is not None:
                    break
            except ChildProcessError:
                break
print("new in sys:", sorted(set(vars(sys)) - set(names)))
print("main:", [name for name in globals() if "memreel" in name or name in ("attach", "Attached")])
if kind != "plain":
    print("history:", torch.state["is_on"], "_inductor" in vars(torch))
