"""Runs in a process that `memreel attach` attaches to: switches PyTorch's history on, sends a snapshot, restores what was.

`memreel attach` adds a line that calls `attach` with its orders. All names are of a namespace that is gone afterwards. What
fails here is said to `memreel attach` over a socket, and never to the program.
"""

import _signal
import _socket
import _thread
import atexit
import contextlib
import os
import sys

# Seconds that the exit of the program waits for a snapshot in progress, or for a reader.
PATIENCE = 60
# The attribute of `sys` that a second attachment finds.
MARK = "_memreel_attach"
# The statistics of PyTorch that count events.
COUNTS = (
    "allocation.all.allocated",
    "allocation.all.freed",
    "active.all.freed",
    "segment.all.allocated",
    "segment.all.freed",
    "num_ooms",
)


def attach(orders):
    """Begins. It runs between two lines of the program, so that a thread does the work, which blocks all signals."""
    try:
        # A child of fork has the request too.
        if os.getpid() != orders["process"]:
            return
        channel = connected(orders["folder"])
        if channel is None:
            return
        if not isinstance(_thread.start_new_thread, type(len)):
            # Its threads are not threads: one that waits would stop the program.
            import_modules()
            tell(channel, {"refused": "its threads were replaced, as gevent and eventlet do it"})
            channel.close()
            return
        attached = Attached(channel, orders["ring"])
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            _thread.start_new_thread(attached.run, ())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    except Exception:
        return


def connected(folder):
    """The way to `memreel attach`; none if it has given up, and then its folder goes."""
    channel = _socket.socket(_socket.AF_UNIX)
    # Of the process alone: a program that it starts does not get it.
    channel.settimeout(PATIENCE)
    try:
        channel.connect(os.path.join(folder, "socket"))
        return channel
    except OSError:
        channel.close()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, "script.py"))
            os.rmdir(folder)
        return None


def import_modules():
    """A thread of its own waits here for an import that the main thread is in; in the main thread the module lacks names."""
    global json, pickle
    import json
    import pickle


def tell(channel, what):
    channel.sendall(json.dumps(what).encode() + b"\n")


def in_a_line(error):
    return (" ".join(str(error).split()) or type(error).__name__)[:500]


class Writer:
    """A socket as a file that can be written."""

    def __init__(self, channel):
        self.channel = channel

    def write(self, data):
        self.channel.sendall(data)
        return len(data)


class Attached:
    """An attachment: what was switched on, and whether it is over."""

    def __init__(self, channel, ring):
        self.channel, self.ring = channel, ring
        self.lock = _thread.allocate_lock()
        self.process = os.getpid()
        self.is_over = False
        # Whether the history is on because of this.
        self.is_ours = False
        self.why = None
        self.counts_before = {}

    def run(self):
        try:
            import_modules()
            why_not = self.begin()
            if why_not is not None:
                self.forget()
                tell(self.channel, {"refused": why_not})
                self.hang_up()
                return
            atexit.register(self.at_exit)
            tell(self.channel, self.state())
            # A byte asks for the snapshot. The end means that `memreel attach` has ended.
            self.channel.settimeout(None)
            order = self.channel.recv(1)
            self.channel.settimeout(PATIENCE)
            self.end("asked" if order else None)
        except Exception as error:
            self.why = in_a_line(error)
            with contextlib.suppress(Exception):
                self.end(None)
        finally:
            self.channel.close()

    def begin(self):
        """Switches the history on. Returns why it cannot be."""
        other = vars(sys).setdefault(MARK, self)
        # A child of fork has the mark of its parent.
        if other is not self and other.process == self.process:
            return "another `memreel attach` is attached to it; end that one first"
        setattr(sys, MARK, self)
        why = self.without_history()
        if why is not None:
            return why
        # Now, if CUDA is initialised; otherwise when it is. Nothing here initialises it.
        if not (self.torch.cuda.is_initialized() and self.is_on()):
            self.torch.cuda._lazy_call(self.switch_on)
        return self.why

    def without_history(self):
        self.torch = torch = sys.modules.get("torch")
        if torch is None:
            return "PyTorch is not loaded in it, and there is no other history to switch on"
        needed = ("_cuda_record_memory_history", "_cuda_memorySnapshot")
        c = getattr(torch, "_C", None)
        if getattr(torch, "cuda", None) is None or not all(hasattr(c, name) for name in needed):
            return "its PyTorch is built without CUDA, or is being imported"
        return None

    def is_on(self):
        is_on = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        return is_on is not None and bool(is_on())

    def switch_on(self):
        # PyTorch may call it later, from the program's own first use of CUDA.
        if self.is_over or self.is_ours or os.getpid() != self.process:
            return
        record = self.torch.cuda.memory._record_memory_history
        try:
            try:
                record(enabled="all", context="all", stacks="python", max_entries=self.ring)
            except TypeError:  # PyTorch 2.0
                record(True, trace_alloc_max_entries=self.ring, trace_alloc_record_context=True)
            self.is_ours = True
            self.counts_before = self.counts()
        except Exception as error:
            # The backend cudaMallocAsync and other allocators have none.
            self.why = in_a_line(error)

    def counts(self):
        """The number of events of each device so far."""
        found = {}
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats(device)
            found[device] = sum(stats.get(key, 0) for key in COUNTS)
        return found

    def state(self):
        is_initialized = self.torch.cuda.is_initialized()
        return {
            "history": "ours" if self.is_ours else "theirs" if is_initialized else "waits",
            "torch": str(getattr(self.torch, "__version__", "")),
            "devices": self.devices() if is_initialized else [],
        }

    def devices(self):
        """What PyTorch has of each device that it uses, and what the device reports."""
        found = []
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats(device)
            reserved = stats.get("reserved_bytes.all.current", 0)
            # A question about another device would make a context there.
            if reserved == 0:
                continue
            free, total = self.torch.cuda.mem_get_info(device)
            allocated = stats.get("allocated_bytes.all.current", 0)
            figures = {"device": device, "allocated_bytes": allocated, "reserved_bytes": reserved}
            found.append({**figures, "used_bytes": total - free, "limit_bytes": total})
        return found

    def at_exit(self):
        if os.getpid() == self.process:
            try:
                self.end("exit")
            except Exception:
                return

    def end(self, reason):
        """Takes the snapshot, if there is a reason for one, restores what was, and sends what there is; once."""
        if not self.lock.acquire(timeout=PATIENCE):
            return
        try:
            if self.is_over:
                return
            self.is_over = True
            answer, snapshot = {"reason": reason, "failed": self.why}, None
            try:
                if reason is not None:
                    answer["devices"], snapshot = self.taken()
                    answer["n_events"] = sum(len(trace) for trace in snapshot["device_traces"])
            except Exception as error:
                answer["failed"] = in_a_line(error)
            answer["history"] = self.restored()
            # The mark goes first. A caller that has the answer then finds no trace in the program.
            self.forget()
            self.send(answer, snapshot)
        finally:
            self.forget()
            self.hang_up()
            self.lock.release()

    def taken(self):
        torch = self.torch
        if not torch.cuda.is_initialized():
            raise RuntimeError("the program did not use CUDA")
        devices, counts = self.devices(), self.counts()
        is_needed = "torch._inductor" in sys.modules or "_inductor" in vars(torch)
        # PyTorch looks there for names of compiled code; an import of it would take seconds of the program.
        empty = None if is_needed else type(sys)("torch._inductor")
        if empty is not None:
            torch._inductor = empty
        try:
            snapshot = torch.cuda.memory._snapshot()
        finally:
            if empty is not None and vars(torch).get("_inductor") is empty:
                del torch._inductor
        self.note(snapshot, counts)
        return devices, snapshot

    def note(self, snapshot, counts):
        """Adds to the settings how many entries the ring lost."""
        settings = snapshot.get("allocator_settings")
        if not self.is_ours or not isinstance(settings, dict):
            return
        n_lost = 0
        for device, trace in enumerate(snapshot["device_traces"]):
            if len(trace) >= self.ring:
                n_lost += max(1, counts.get(device, 0) - self.counts_before.get(device, 0) - len(trace))
        if n_lost > 0:
            # This key stays the last.
            last = settings.pop("roundup_power2_divisions", None)
            settings.update(trace_alloc_overflowed=True, trace_alloc_lost_entries=n_lost)
            settings["trace_alloc_max_entries"] = self.ring
            if last is not None:
                settings["roundup_power2_divisions"] = last

    def restored(self):
        """Switches the history off if this switched it on. Returns what it is now."""
        if not self.is_ours:
            return "theirs"
        is_known = hasattr(self.torch._C, "_cuda_isHistoryEnabled")
        if is_known and not self.is_on():
            return "off by the program"
        record = self.torch.cuda.memory._record_memory_history
        try:
            try:
                record(enabled=None)
            except TypeError:  # PyTorch 2.0
                record(False)
            return "off"
        except Exception as error:
            return "still on: " + in_a_line(error)

    def send(self, answer, snapshot):
        try:
            tell(self.channel, answer)
            if snapshot is not None:
                pickle.dump(snapshot, Writer(self.channel), protocol=4)
                # What is cut off lacks this.
                self.channel.sendall(b"whole\n")
        except OSError:
            return

    def forget(self):
        """Takes away what the program or another attachment could find."""
        if vars(sys).get(MARK) is self:
            delattr(sys, MARK)

    def hang_up(self):
        """Ends the connection, and with it what the exit of the program waits for."""
        atexit.unregister(self.at_exit)
        try:
            # A thread that waits for an order wakes, and children of fork that have the socket too do not keep it open.
            self.channel.shutdown(_socket.SHUT_RDWR)
        except OSError:
            return
