"""Switches PyTorch's own history of memory on, and writes its snapshot for `memreel record`.

Nothing here initialises CUDA: the history begins when the program does that. What fails here is one line on standard
error, and the program goes on.
"""

import json
import os
import sys
import threading
import time

# Entries that PyTorch keeps for each GPU, unless `ring` in MEMREEL says otherwise.
MAX_ENTRIES = 250000
# Seconds that the exit waits for a dump in progress.
PATIENCE = 60


class State:
    """What is known of this process; a child of fork begins anew."""

    def __init__(self):
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.thread = None
        self.history = "off"  # "on", "off", "unavailable"
        self.by_program = False
        self.since_us = None
        self.why = None
        self.n_capturing = 0
        self.has_ended = False
        self.has_complained = False
        self.has_dump = False
        self.is_ours = threading.local()


torch = None
state = State()


def complain(what, error):
    if state.has_complained:
        return
    state.has_complained = True
    try:
        sys.stderr.write("memreel: %s: %s\n" % (what, " ".join(str(error).split()) or type(error).__name__))
    except Exception:
        pass


def now_us():
    return time.time_ns() // 1000


def options():
    """The stacks, the context and the number of entries that MEMREEL asks for."""
    words = [word.strip() for word in os.environ.get("MEMREEL", "").split(",")]
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    pairs = {key.strip(): value.strip() for key, value in pairs.items()}
    stacks = pairs.get("stacks", "all")
    context = pairs.get("context", "all")
    # PyTorch names its native frames at each dump, which takes minutes: only if native stacks alone are asked for.
    kind = "all" if stacks == "native" else "python"
    if stacks == "none" or context == "none":
        context = None
    try:
        n = max(2, int(pairs.get("ring", MAX_ENTRIES)))
    except ValueError:
        n = MAX_ENTRIES
    return context, kind, n


def install(module):
    """Hooks a torch that was just imported."""
    global torch
    c = getattr(module, "_C", None)
    needed = ("_cuda_record_memory_history", "_cuda_memorySnapshot")
    if getattr(module, "cuda", None) is None or not all(hasattr(c, name) for name in needed):
        return  # Built without CUDA.
    torch = module
    for name in ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy"):
        if hasattr(c, name):
            setattr(c, name, watched(getattr(c, name)))
    watch_captures()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)
    # Runs now if CUDA is initialised, otherwise when it is.
    module.cuda._lazy_call(start)


def forked():
    global state
    state = State()


def watched(record):
    """PyTorch's switch of its history; the program's calls are passed on and noted."""

    def switch(*args, **kwargs):
        if getattr(state.is_ours, "now", False):
            return record(*args, **kwargs)
        enabled = args[0] if args else kwargs.get("enabled")
        if not enabled:
            # PyTorch erases the history: what there is goes into the last dump.
            safely(lambda: dump("off"))
        result = record(*args, **kwargs)
        safely(lambda: noted(enabled))
        return result

    switch.__name__ = getattr(record, "__name__", "record")
    switch.__doc__ = record.__doc__
    return switch


def noted(enabled):
    state.by_program = True
    state.history = "on" if enabled else "off"
    state.since_us = now_us()
    register()
    if not enabled:
        describe("off")


def watch_captures():
    """Counts captures of CUDA graphs, during which nothing is dumped."""
    graph = getattr(torch.cuda, "CUDAGraph", None)
    begin, end = getattr(graph, "capture_begin", None), getattr(graph, "capture_end", None)
    if begin is None or end is None:
        return

    def capture_begin(self, *args, **kwargs):
        state.n_capturing += 1
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            state.n_capturing -= 1
            raise

    def capture_end(self, *args, **kwargs):
        try:
            return end(self, *args, **kwargs)
        finally:
            state.n_capturing = max(0, state.n_capturing - 1)

    for name, method, original in (("capture_begin", capture_begin, begin), ("capture_end", capture_end, end)):
        method.__name__, method.__doc__ = name, original.__doc__
        try:
            setattr(graph, name, method)
        except Exception:
            return


def safely(act, what="PyTorch's blocks are not recorded"):
    try:
        return act()
    except Exception as error:
        complain(what, error)


def start():
    """Switches the history on, right after CUDA was initialised, and arranges the dumps."""
    safely(begin)


def begin():
    if state.by_program:
        return  # The program's call was first, and its arguments win.
    context, stacks, max_entries = options()
    record = torch.cuda.memory._record_memory_history
    state.is_ours.now = True
    try:
        try:
            record(enabled="all", context=context, stacks=stacks, max_entries=max_entries)
        except TypeError:  # PyTorch 2.0
            record(True, trace_alloc_max_entries=max_entries, trace_alloc_record_context=context is not None)
    except Exception as error:
        # The backend cudaMallocAsync and other allocators have no history; the driver's is there.
        state.history, state.why = "unavailable", " ".join(str(error).split())[:500]
        state.since_us = now_us()
        describe("start")
        return
    finally:
        state.is_ours.now = False
    state.history, state.since_us = "on", now_us()
    register()


def register():
    """Arranges the dumps at the exit and at intervals, once in a process."""
    if state.thread is not None:
        return
    import atexit

    atexit.register(ended)
    # A child of multiprocessing ends with os._exit after these.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, ended, exitpriority=0)
    state.thread = False
    every = seconds()
    if every > 0:
        state.thread = threading.Thread(target=at_intervals, args=(state, every), name="memreel", daemon=True)
        state.thread.start()


def seconds():
    try:
        return float(os.environ.get("MEMREEL_TORCH_EVERY") or 0)
    except ValueError:
        return 0.0


def at_intervals(of, every):
    while not of.stop.wait(every):
        if of is not state:
            return
        if of.n_capturing == 0 and of.history == "on":
            safely(lambda: dump("interval"), "PyTorch's blocks could not be written")


def ended():
    """The exit of the process."""
    if state.has_ended:
        return
    state.has_ended = True
    state.stop.set()
    safely(lambda: dump("exit"), "PyTorch's blocks could not be written")


def folder():
    return os.environ["MEMREEL_RECORD"]


def place(end):
    return os.path.join(folder(), "%d-torch.%s" % (os.getpid(), end))


def dump(reason):
    """Writes PyTorch's snapshot, if its history is on and CUDA is in use in this process."""
    if state.history != "on" or not torch.cuda.is_initialized():
        return
    if not state.lock.acquire(timeout=PATIENCE):
        return
    try:
        if state.history != "on":
            return
        time_us = now_us()
        snapshot = taken()
        settings = snapshot.get("allocator_settings")
        if isinstance(settings, dict):
            # This key stays the last.
            last = settings.pop("roundup_power2_divisions", None)
            settings["memreel_torch_time_us"] = time_us
            if last is not None:
                settings["roundup_power2_divisions"] = last
        import pickle

        whole(place("pickle"), lambda file: pickle.dump(snapshot, file, protocol=4))
        state.has_dump = True
        describe(reason, time_us)
    finally:
        state.lock.release()


def taken():
    """PyTorch's snapshot. It imports torch._inductor for its frames, which takes seconds; a program without compiled
    code needs none of it, and no other thread may be about to look for it."""
    n_ours = 1 if isinstance(state.thread, threading.Thread) and state.thread.is_alive() else 0
    is_needed = "torch._inductor" in sys.modules or "_inductor" in vars(torch)
    if is_needed or threading.active_count() > 1 + n_ours:
        return torch.cuda.memory._snapshot()
    empty = type(sys)("torch._inductor")
    torch._inductor = empty
    try:
        return torch.cuda.memory._snapshot()
    finally:
        if vars(torch).get("_inductor") is empty:
            del torch._inductor


def describe(reason, time_us=None):
    """Writes beside the dump when and why it was written, and what became of the history."""
    facts = {
        "time_us": time_us,
        "reason": reason,
        "history": state.history,
        "history_since_us": state.since_us,
        "by_program": state.by_program,
        "why": state.why,
        "pid": os.getpid(),
        "torch": str(getattr(torch, "__version__", "")),
    }
    if time_us is None and state.has_dump:
        # The dump stays, and so does its time.
        try:
            with open(place("json"), "rb") as file:
                facts["time_us"] = json.loads(file.read().decode()).get("time_us")
        except Exception:
            pass
    whole(place("json"), lambda file: file.write(json.dumps(facts).encode()))


def whole(path, write):
    """Writes a whole file, or none."""
    temporary = os.path.join(os.path.dirname(path), ".%s.tmp" % os.path.basename(path))
    try:
        with open(temporary, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
