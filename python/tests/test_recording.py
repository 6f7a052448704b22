"""record, start, stop, dump, scope and on_oom, on PyTorch's history and without it."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
import types
import warnings

import pytest
from fake_torch import FakeTorch, import_torch

import memreel


def events(path):
    with open(path, "rb") as file:
        return [(entry["action"], entry["size"]) for entry in pickle.load(file)["device_traces"][0]]


def settings(path):
    with open(path, "rb") as file:
        return pickle.load(file)["allocator_settings"]


def test_a_part_of_the_program_is_recorded(torch, tmp_path):
    path = tmp_path / "run-{rank}-{{.pickle"
    with memreel.record(path) as recording:
        torch.alloc(1, 100)
        torch.free(1, 100)
    torch.alloc(2, 7)
    assert recording.path == tmp_path / "run-0-{.pickle"
    assert events(recording.path) == [("alloc", 100), ("free_requested", 100), ("free_completed", 100)]
    assert torch.switched == [("all", {"stacks": "python"}), (None, {})]
    assert memreel.load(recording.path).n_events == 3
    assert list(settings(recording.path))[-1] == "roundup_power2_divisions"


def test_cuda_is_never_initialised_by_the_recording(torch, tmp_path):
    memreel.start()
    assert torch.switched == []
    with pytest.raises(memreel.RecordingError, match="has not used CUDA yet"):
        memreel.dump(tmp_path / "x.pickle")
    torch.alloc(1, 5)
    assert events(memreel.dump(tmp_path / "x.pickle")) == [("alloc", 5)]
    memreel.stop()
    memreel.start()
    memreel.stop()
    assert [enabled for enabled, _ in torch.switched] == ["all", None, "all", None]


def test_a_recording_that_ends_before_cuda_begins_switches_nothing_on(torch):
    memreel.start()
    memreel.stop()
    torch.use()
    assert torch.switched == []


def test_the_history_of_the_program_stays_its_own(torch, tmp_path):
    torch.use()
    torch.switch("all")
    torch.alloc(1, 5)
    with memreel.record(tmp_path / "x.pickle"):
        torch.alloc(2, 6)
    assert events(tmp_path / "x.pickle") == [("alloc", 5), ("alloc", 6)]
    assert torch.is_on and len(torch.switched) == 1


def test_a_ring_that_lost_entries_is_reported(torch, tmp_path):
    torch.alloc(9, 9)
    with pytest.warns(memreel.MemreelWarning, match="about 2 of its oldest events were lost"):
        with memreel.record(tmp_path / "x.pickle", max_entries=4):
            torch.alloc(1, 100)
            torch.free(1, 100)
            torch.alloc(2, 200)
            torch.alloc(3, 300)
            torch.alloc(4, 400)
    assert len(events(tmp_path / "x.pickle")) == 4
    assert settings(tmp_path / "x.pickle")["trace_alloc_lost_entries"] == 2
    assert not memreel.load(tmp_path / "x.pickle").summary().is_whole


def test_nested_recordings_each_write_their_file(torch, tmp_path):
    with memreel.record(tmp_path / "outer.pickle"):
        torch.alloc(1, 1)
        with memreel.record(tmp_path / "inner.pickle"):
            torch.alloc(2, 2)
        torch.alloc(3, 3)
    assert events(tmp_path / "inner.pickle") == [("alloc", 1), ("alloc", 2)]
    assert events(tmp_path / "outer.pickle") == [("alloc", 1), ("alloc", 2), ("alloc", 3)]


def test_threads_record_at_once(torch, tmp_path):
    torch.use()
    both = threading.Barrier(2)

    def run(n: int) -> None:
        with memreel.record(tmp_path / f"{n}.pickle"):
            both.wait()
            torch.alloc(n, n)
            both.wait()

    threads = [threading.Thread(target=run, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in (1, 2):
        assert sorted(events(tmp_path / f"{n}.pickle")) == [("alloc", 1), ("alloc", 2)]
    assert not torch.is_on


def test_an_exception_passes_and_the_file_is_written(torch, tmp_path):
    with pytest.raises(KeyError):
        with memreel.record(tmp_path / "x.pickle"):
            torch.alloc(1, 1)
            raise KeyError("of the program")
    assert events(tmp_path / "x.pickle") == [("alloc", 1)]
    assert not torch.is_on


def test_an_exception_of_the_program_is_not_hidden(torch, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    with pytest.raises(KeyError):
        with memreel.record(folder / "x.pickle"):
            torch.alloc(1, 1)
            folder.rmdir()
            raise KeyError("of the program")
    assert "x.pickle was not written" in capsys.readouterr().err
    # Nor by one of PyTorch, after a fault of the GPU.
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: 1 / 0)
    with pytest.raises(KeyError), memreel.record(tmp_path / "y.pickle"):
        torch.alloc(2, 1)
        raise KeyError("of the program")
    assert torch.is_on is False


def test_a_history_that_began_before_cuda_is_the_program_s(torch, tmp_path):
    torch.is_on = True
    with memreel.record(tmp_path / "x.pickle"):
        torch.alloc(1, 5)
    assert torch.is_on and torch.switched == []


def test_a_recording_that_failed_to_begin_leaves_nothing_open(torch, tmp_path, monkeypatch):
    torch.use()
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda *given, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memreel.start()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with memreel.record(tmp_path / "x.pickle"):
        torch.alloc(1, 5)
    assert events(tmp_path / "x.pickle") == [("alloc", 5)]


def test_pytorch_may_be_imported_after_the_first_recording_began(monkeypatch, tmp_path):
    import_torch(monkeypatch, None)
    with pytest.warns(memreel.MemreelWarning, match="is not imported"):
        memreel.start()
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with memreel.record(tmp_path / "x.pickle"):
        torch.alloc(1, 5)
    assert events(tmp_path / "x.pickle") == [("alloc", 5)]


def test_a_dump_without_a_history_is_an_error(torch, tmp_path):
    torch.use()
    with pytest.raises(memreel.RecordingError, match="history is off"):
        memreel.dump(tmp_path / "x.pickle")


def test_the_name_of_a_scope_is_a_text_that_can_be_written(torch):
    for name in ("a\0b", "a\ud800"):
        with pytest.raises(memreel.UsageError):
            memreel.scope(name)


def test_many_scopes_before_cuda_are_asked_for_once(torch):
    for _ in range(100):
        with memreel.scope("load"):
            pass
    assert len(torch.waiting) == 1


def test_a_path_that_cannot_be_written_is_refused_at_once(torch, tmp_path):
    for path, why in ((tmp_path, "it is a folder"), (tmp_path / "no" / "x", "does not exist")):
        with pytest.raises(memreel.UnreadableError, match=why):
            with memreel.record(path):
                raise AssertionError("the program must not begin")
    with pytest.raises(memreel.UsageError, match=r"{nothing}"):
        memreel.dump(tmp_path / "{nothing}.pickle")


def test_an_interrupted_dump_leaves_no_half_file(torch, tmp_path, monkeypatch):
    (tmp_path / "x.pickle").write_text("before")
    memreel.start()
    torch.alloc(1, 1)

    def interrupted(value, file, **options):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pickle, "dump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memreel.dump(tmp_path / "x.pickle")
    assert [path.name for path in tmp_path.iterdir()] == ["x.pickle"]
    assert (tmp_path / "x.pickle").read_text() == "before"


def test_a_child_of_fork_writes_nothing(torch, tmp_path):
    recording = memreel.record(tmp_path / "x.pickle")
    recording.__enter__()
    torch.alloc(1, 1)
    child = os.fork()
    if child == 0:
        recording.__exit__(None, None, None)
        os._exit(0 if not (tmp_path / "x.pickle").exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    recording.__exit__(None, None, None)
    assert events(tmp_path / "x.pickle") == [("alloc", 1)]


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (None, "PyTorch is not imported"),
        (types.SimpleNamespace(_C=types.SimpleNamespace(), cuda=None), "built without CUDA"),
        (FakeTorch(is_available=False), "finds no GPU"),
    ],
)
def test_where_nothing_records_the_program_goes_on(monkeypatch, tmp_path, module, why):
    import_torch(monkeypatch, module)
    with pytest.warns(memreel.MemreelWarning, match=why):
        with memreel.record(tmp_path / "x.pickle"), memreel.scope("step"):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memreel.start()  # It has warned.
    assert not (tmp_path / "x.pickle").exists()
    with pytest.raises(memreel.RecordingError, match="memreel record --"):
        memreel.dump(tmp_path / "x.pickle")


def test_scopes_that_begin_before_cuda_hold_when_it_begins(torch, tmp_path):
    with memreel.record(tmp_path / "x.pickle"):
        with memreel.scope("load"):
            pass
        with memreel.scope("train"):
            with memreel.scope("step"):
                torch.alloc(1, 5)
                with memreel.scope("forward"):
                    torch.alloc(2, 6)
                torch.alloc(3, 7)
            torch.alloc(4, 8)
        torch.alloc(5, 9)
    scopes = [row["scope"] for row in memreel.load(tmp_path / "x.pickle").events]
    assert scopes == ["record/train/step", "record/train/step/forward", "record/train/step", "record/train", "record"]
    assert torch.metadata == ""


def test_a_gpu_that_was_found_is_not_looked_for_again(torch):
    asked = []
    torch.cuda.is_available = lambda: asked.append(1) or len(asked) > 1
    for _ in range(5):
        with memreel.scope("step"):
            pass
    # The first time there was none, which may change.
    assert len(asked) == 2


def test_another_torch_is_looked_at_anew(torch, monkeypatch):
    with memreel.scope("step"):
        pass
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(is_available=False))
    with pytest.raises(memreel.RecordingError, match="finds no GPU"):
        memreel.dump("x.pickle")


def test_scopes_are_paths(torch, tmp_path):
    torch.use()

    @memreel.scope("step")
    def step():
        torch.alloc(1, 1)
        with memreel.scope("forward"):
            torch.alloc(2, 2)
        torch.alloc(3, 3)

    with memreel.record(tmp_path / "x.pickle"):
        step()
    torch.alloc(4, 4)
    scopes = [row["scope"] for row in memreel.load(tmp_path / "x.pickle").events]
    assert scopes == ["record/step", "record/step/forward", "record/step"]
    assert torch.metadata == ""


class OutOfMemoryError(RuntimeError):
    """PyTorch's has this name."""


def test_out_of_memory_is_written_explained_and_raised_again(torch, tmp_path, capsys):
    @memreel.on_oom(tmp_path / "oom-{rank}.pickle")
    def train():
        torch.alloc(1, 64)
        torch.event("oom", 0, 1 << 30)
        raise OutOfMemoryError("CUDA out of memory")

    with pytest.raises(OutOfMemoryError):
        train()
    assert events(tmp_path / "oom-0.pickle")[-1] == ("oom", 1 << 30)
    printed = capsys.readouterr().err
    assert "the snapshot is" in printed and "a request for 1.00 GiB failed" in printed


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have groups from 3.11 on")
@pytest.mark.parametrize("is_cause", [False, True])
def test_out_of_memory_is_found_in_a_group(torch, tmp_path, capsys, is_cause):
    oom = OutOfMemoryError("CUDA out of memory")
    inner = ExceptionGroup("inner", [KeyError("x"), ExceptionGroup("innermost", [ValueError("y"), oom, MemoryError()])])  # noqa: F821
    raised = inner
    if is_cause:
        raised = RuntimeError("a task failed")
        raised.__cause__ = inner
    with pytest.raises(type(raised)) as caught:
        with memreel.on_oom(tmp_path / "oom.pickle"):
            torch.alloc(1, 64)
            torch.event("oom", 0, 1 << 30)
            raise raised
    assert caught.value is raised and inner.exceptions[1].exceptions[1] is oom
    assert events(tmp_path / "oom.pickle")[-1] == ("oom", 1 << 30)
    printed = capsys.readouterr().err
    assert printed.count("the snapshot is") == 1 and printed.count("a request for 1.00 GiB failed") == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have groups from 3.11 on")
def test_a_group_of_other_exceptions_writes_nothing(torch, tmp_path):
    group = ExceptionGroup("all", [KeyError("x"), ExceptionGroup("inner", [ValueError("y")])])  # noqa: F821
    group.exceptions[1].__context__ = group
    with pytest.raises(ExceptionGroup), memreel.on_oom(tmp_path / "oom.pickle"):  # noqa: F821
        torch.alloc(1, 64)
        raise group
    assert list(tmp_path.iterdir()) == []


def test_other_exceptions_write_nothing(torch, tmp_path):
    with pytest.raises(KeyError):
        with memreel.on_oom(tmp_path / "oom.pickle"):
            torch.alloc(1, 64)
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_reload_keeps_the_classes_and_the_recording(torch, tmp_path):
    with memreel.record(tmp_path / "x.pickle"):
        torch.alloc(1, 1)
        importlib.reload(memreel)
        torch.alloc(2, 2)
    assert len(events(tmp_path / "x.pickle")) == 2
    assert memreel.Error is importlib.import_module("memreel._errors").Error


def test_the_interpreter_ends_with_recording_on(tmp_path):
    text = "import memreel, warnings; warnings.simplefilter('ignore'); memreel.start(); memreel.record('x').__enter__()"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
