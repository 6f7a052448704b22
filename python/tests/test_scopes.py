"""Scopes of tasks, generators and threads: each has its own path, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import types

import pytest

import memreel
from memreel.recording.stacked import Stacked


@pytest.fixture(params=[True, False], ids=["metadata", "annotations"])
def shown(request, torch):
    """The path of scopes that PyTorch shows, by both of its ways."""
    torch.use()
    if request.param:
        return lambda: torch.metadata
    del torch._C._cuda_getMemoryMetadata
    begun: list[str] = []

    class Annotation:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            begun.append(self.name)

        def __exit__(self, *error):
            assert begun.pop() == self.name

    torch.autograd = types.SimpleNamespace(profiler=types.SimpleNamespace(record_function=Annotation))
    return lambda: "/".join(begun)


def test_tasks_that_interleave_leave_nothing_behind(shown):
    seen = {}

    async def task(name, first, second):
        with memreel.scope(name):
            seen[name] = [shown()]
            first.set()
            await second.wait()
            with memreel.scope("inner"):
                seen[name].append(shown())
            seen[name].append(shown())
        seen[name].append(shown())

    async def both():
        one, two = asyncio.Event(), asyncio.Event()
        with memreel.scope("all"):
            await asyncio.gather(task("a", one, two), task("b", two, one))
            with memreel.scope("after"):
                seen["after"] = shown()

    asyncio.run(both())
    for name in "ab":
        assert seen[name] == [f"all/{name}", f"all/{name}/inner", f"all/{name}", "all"]
    assert seen["after"] == "all/after" and shown() == ""


def test_a_task_that_outlives_the_scope_it_was_started_in_does_not_bring_it_back(shown):
    seen = []

    async def late(go):
        await go.wait()
        with memreel.scope("late"):
            seen.append(shown())
        seen.append(shown())

    async def main():
        go = asyncio.Event()
        with memreel.scope("early"):
            task = asyncio.create_task(late(go))
            await asyncio.sleep(0)
        go.set()
        await task

    asyncio.run(main())
    assert seen == ["late", ""] and shown() == ""


def test_a_coroutine_is_decorated(shown):
    @memreel.scope("step")
    async def step(n):
        await asyncio.sleep(0)
        return n, shown()

    assert asyncio.run(step(3)) == (3, "step") and shown() == ""


def test_a_generator_ends_its_own_scope_alone(shown):
    def numbers():
        with memreel.scope("load"):
            yield 1

    batches = numbers()
    next(batches)
    with memreel.scope("step"):
        batches.close()
        assert shown() == "step"
    assert shown() == ""


def test_a_scope_that_another_task_ends_ends(shown):
    one = memreel.scope("one")

    async def begin():
        one.__enter__()

    async def end():
        one.__exit__(None, None, None)

    async def main():
        await asyncio.create_task(begin())
        await asyncio.create_task(end())

    asyncio.run(main())
    assert shown() == ""


def test_a_thread_that_a_task_uses_has_scopes_of_its_own(torch):
    torch.use()
    threads = threading.local()
    torch._C._cuda_getMemoryMetadata = lambda: getattr(threads, "text", "")
    torch._C._cuda_setMemoryMetadata = lambda text: setattr(threads, "text", text)

    def work():
        with memreel.scope("work"):
            inside = threads.text
        return inside, threads.text

    async def main():
        with memreel.scope("main"):
            return await asyncio.to_thread(work), threads.text

    assert asyncio.run(main()) == (("work", ""), "main")


def test_metadata_of_the_program_stays_around_and_within_scopes(torch):
    torch.use()
    torch.metadata = "program"
    with memreel.scope("a"):
        assert torch.metadata == "program/a"
        torch.metadata = "other"
        with memreel.scope("b"):
            assert torch.metadata == "other/b"
        assert torch.metadata == "other"
    assert torch.metadata == "program"
    torch.metadata = ""
    with memreel.scope("c"):
        assert torch.metadata == "c"
    assert torch.metadata == ""


def test_one_scope_inside_itself(shown):
    one = memreel.scope("one")
    with one:
        with one:
            assert shown() == "one/one"
        assert shown() == "one"
    one.__exit__(None, None, None)
    assert shown() == ""


def test_a_stack_of_names_changes_by_what_differs():
    calls = []
    stacked = Stacked(lambda name: calls.append(name) or name, lambda begun: calls.append("-" + begun))
    for names in (["a", "b"], ["a", "c"], ["a", "c", "d"], ["x"], [], []):
        stacked.change(names)
    assert calls == ["a", "b", "-b", "c", "d", "-d", "-c", "-a", "x", "-x"]
