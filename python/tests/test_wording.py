"""Refusals of the program, in the words of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreel

FILE = next((Path(__file__).parents[2] / "fixtures" / "torch-2.11").rglob("resnet18*.pickle"))

NO_SIZE = "is not a size; use for example 24GiB, 512MiB, 1.5GiB or a number of bytes"
NO_RANGE = "is not a range; use for example 100..200, 100.. or ..200"


@pytest.fixture(scope="module")
def snapshot():
    return memreel.load(FILE)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: s.top(at="nonsense"), "at='nonsense': not a moment; use an event number, start, peak, oom or end"),
        (lambda s: s.top(at=-1), "at=-1: not a moment; use an event number, start, peak, oom or end"),
        (lambda s: s.top(by="colour"), "by='colour': not one of stack, function, file, line, scope, name, stream, pool, owner"),
        (lambda s: s.top(n=-1), "n=-1: not a whole number from 0 on"),
        (lambda s: s.top(n=True), "n needs a value"),
        (lambda s: s.new(since="x"), 'since=\'x\': "x" is not a time; use for example 1.5s, 200ms, 70us, or a timestamp in microseconds as in time_us'),
        (lambda s: s.new(by="owner"), f"{FILE}: new counts blocks, which have no owners; leave out by='owner'"),
        (lambda s: s.at("--json"), '"--json": not a moment; use an event number, start, peak, oom or end'),
        (lambda s: s.leaks_older_than("x"), "events='x': not a whole number from 0 on"),
        (lambda s: s.leaks_between("a", "--json"), "second='--json': a scope name that starts with - is not supported"),
        (lambda s: s.timeline(by="size"), "by='size': not one of event, time"),
        (lambda s: s.gate(), "no limit given; use for example max_peak='10GiB' or baseline=FILE"),
        (lambda s: s.gate(tolerance="5%"), "baseline is needed too"),
        (lambda s: s.slim(nth=3), "scope is needed too"),
        (lambda s: s.slim(events="1..2", time="1s..2s"), "events and time cannot be used together"),
        (lambda s: s.slim(min_size="a' for '--b"), f"min_size=\"a' for '--b\": \"a' for '--b\" {NO_SIZE}"),
        (lambda s: s.slim(events="\n\nUsage: x"), f"events='\\n\\nUsage: x': \"\\n\\nUsage: x\" {NO_RANGE}"),
        (lambda s: memreel.merge([]), "no snapshot given"),
        (lambda s: memreel.diff(s, s, at="x"), "at='x': not a moment; use an event number, start, peak, oom or end"),
        (lambda s: s.ask(["top", "--at", "bad", s.name]), "invalid value 'bad' for '--at <WHEN>': not a moment; use an event number, start, peak, oom or end"),
        (lambda s: s.ask(["nonsense"]), "unrecognized subcommand 'nonsense'"),
    ],
)
def test_a_refusal_speaks_of_parameters(snapshot, ask, said):
    with pytest.raises(memreel.UsageError) as refused:
        ask(snapshot)
    assert str(refused.value) == said


def test_names_of_the_snapshot_are_not_reworded(snapshot):
    with pytest.raises(memreel.UsageError, match='no events are in a scope "--at peak"; there are'):
        snapshot.slim(scope="--at peak")
