"""Snapshots and tables, compared with what plain pickles say."""

from __future__ import annotations

import dataclasses
import json
import pickle
import runpy
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

import memreel

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = sorted((FIXTURES / "torch-2.11").rglob("*.pickle"))
FILE = next(path for path in FILES if path.name.startswith("resnet18"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def plain(path: Path) -> dict:
    with open(path, "rb") as file:
        return pickle.load(file)


def test_events_are_those_of_the_file(path):
    expected = [
        (device, n, entry["time_us"], entry["action"], entry["size"], entry["stream"])
        for device, trace in enumerate(plain(path)["device_traces"])
        for n, entry in enumerate(trace)
    ]
    keys = ("device", "event", "time_us", "action", "size_bytes", "stream")
    assert [tuple(row[key] for key in keys) for row in memreel.load(path).events] == expected


def test_blocks_and_segments_are_those_of_the_file(path):
    snapshot, segments = memreel.load(path), plain(path)["segments"]
    rows = [(segment["device"], segment["address"], segment["total_size"], len(segment["blocks"])) for segment in segments]
    keys = ("device", "address", "size_bytes", "blocks")
    assert [tuple(row[key] for key in keys) for row in snapshot.segments] == rows
    blocks = [
        (segment["address"], block["size"], block["requested_size"], block["state"])
        for segment in segments
        for block in segment["blocks"]
    ]
    keys = ("segment", "size_bytes", "requested_bytes", "state")
    assert [tuple(row[key] for key in keys) for row in snapshot.blocks] == blocks


def test_stacks_are_those_of_the_events(path):
    snapshot = memreel.load(path)
    frames: dict[int, list[tuple[str, str, int]]] = {}
    for row in snapshot.stacks:
        assert row["depth"] == len(frames.setdefault(row["stack"], []))
        frames[row["stack"]].append((row["function"], row["file"], row["line"]))
    rows = iter(snapshot.events)
    for trace in plain(path)["device_traces"]:
        for entry, row in zip(trace, rows, strict=False):
            expected = [(frame["name"], frame["filename"], frame["line"]) for frame in entry.get("frames", [])]
            assert frames.get(row["stack"], []) == expected


def peak_of(trace: list[dict], blocks: dict[int, int]) -> int:
    """The most bytes in use, of blocks from before the trace and those of its events."""
    live = dict(blocks)
    most = sum(live.values())
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            live.pop(entry["addr"], None)
        most = max(most, sum(live.values()))
    return most


def test_the_peak_is_that_of_the_events():
    path = next(path for path in FILES if path.name.startswith("oom"))
    assert memreel.load(path).peak.active_bytes == peak_of(plain(path)["device_traces"][0], {})


def test_an_answer_is_the_program_s():
    snapshot = memreel.load(FILE)
    address = plain(FILE)["segments"][0]["address"]
    for answer, words in (
        (snapshot.top(by="function", at="end", n=3), ["top", "--by", "function", "--at", "end", "-n", "3"]),
        (snapshot.leaks(n=2), ["leaks", "-n", "2"]),
        (snapshot.churn(), ["churn"]),
        (snapshot.fragmentation(), ["fragmentation"]),
        (snapshot.at(100), ["at", "100"]),
        (snapshot.owners_of(address, at=100), ["at", "--address", str(address), "100"]),
        (snapshot.timeline(width=7), ["timeline", "--width", "7"]),
        (snapshot.owners(), ["owners"]),
        (snapshot.replay("expandable_segments:True"), ["replay", "--conf", "expandable_segments:True"]),
    ):
        words = [*words, "--device", "0", snapshot.name]
        assert snapshot.ask(words)[1].rstrip("\n") == repr(answer)
        assert json.loads(snapshot.ask([words[0], "--json", *words[1:]])[1]) == answer.to_dict()


def test_fields_are_typed():
    top = memreel.load(FILE).top()
    assert isinstance(top.groups[0], memreel.records.TopGroup)
    assert top.groups[0].bytes >= top.groups[-1].bytes
    frames = top.groups[0].stack
    assert frames is not None and isinstance(frames[0], memreel.records.Frame)


def test_a_request_that_failed_is_explained():
    path = next(path for path in FILES if path.name.startswith("oom"))
    oom = memreel.load(path).oom()
    assert oom is not None and oom.oom.requested_bytes == 64 << 20
    assert "out of memory" in repr(oom)
    assert memreel.load(FILE).oom() is None


def test_rewritten_snapshots(tmp_path):
    snapshot = memreel.load(FILE)
    slim = snapshot.slim(depth=2, anonymise=True)
    assert slim.n_events == snapshot.n_events
    assert max(row["depth"] for row in slim.stacks) == 1
    assert snapshot.slim(events="10..20").n_events < snapshot.n_events
    merged = memreel.merge([snapshot, slim])
    assert merged.devices == [0, 1]
    slim.save(tmp_path / "slim.pickle")
    assert len(plain(tmp_path / "slim.pickle")["device_traces"][0]) == slim.n_events
    assert memreel.load(tmp_path / "slim.pickle").fix().n_events == slim.n_events
    assert memreel.diff(snapshot, slim, at="peak").before_bytes == snapshot.peak.active_bytes
    assert memreel.diff(snapshot, FILE).before_bytes == memreel.diff(FILE, FILE).after_bytes


def test_a_device_of_several_is_named():
    merged = memreel.merge([FILE, FILE])
    with pytest.raises(memreel.UsageError, match="has devices 0, 1; name one, for example device=0"):
        merged.top()
    assert merged.top(device=1).device == 1
    with pytest.raises(memreel.UsageError, match="no device 7"):
        merged.top(device=7)
    with pytest.raises(memreel.UsageError, match="no heap; devices with memory: 0, 1"):
        merged.top(device="heap")


def test_a_stack_is_named_by_its_first_shown_frame():
    for group in [*memreel.top(FILE), *memreel.leaks(FILE), *memreel.load(FILE).churn()]:
        shown = [frame for frame in group.stack or [] if frame.is_shown]
        place = (group.function, group.filename, group.line)
        assert place == ((shown[0].name, shown[0].filename, shown[0].line) if shown else (None, None, None))
        assert "function" not in group.to_dict()
    first = memreel.top(FILE)[0]
    assert (first.function, first.line) == ("_multi_tensor_sgd", 455) and first.filename.endswith("sgd.py")
    # Those of another grouping are what they were.
    by_line = next(group for group in memreel.top(FILE, by="line") if group.filename)
    assert by_line.function is None and by_line.line > 0 and by_line.stack is None


def test_the_heap_is_a_device_by_name(tmp_path):
    snapshot = plain(FILE)
    heap = [{**segment, "device": 1} for segment in snapshot["segments"]]
    snapshot["segments"] += heap
    snapshot["device_traces"] = [snapshot["device_traces"][0]] * 2
    usage = {"device": 1, "name": "heap of the process", "uuid": "", "reports": []}
    snapshot["allocator_settings"]["memreel_usage"] = [usage]
    path = tmp_path / "both.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    both = memreel.load(path)
    assert both.top(device="heap").device == both.summary(device="heap").device == 1
    assert memreel.leaks(path, device="heap").to_dict() == memreel.leaks(path, device=1).to_dict()


def test_gates():
    snapshot = memreel.load(FILE)
    assert snapshot.gate(max_peak="100GiB").is_passed
    assert not snapshot.gate(max_peak="1MiB").is_passed
    assert snapshot.gate(baseline=snapshot).is_passed
    assert memreel.gate(FILE, max_peak="100GiB").is_passed
    with pytest.raises(memreel.UsageError, match="no limit given"):
        snapshot.gate()
    with pytest.raises(memreel.UsageError, match="1x"):
        snapshot.gate(max_peak="1x")


def test_the_json_baseline_of_the_program_is_a_limit(tmp_path):
    path = tmp_path / "baseline.json"
    update = ["gate", "--baseline", str(path), "--update-baseline", "--max-peak", "1TiB", str(FILE)]
    subprocess.run([sys.executable, "-m", "memreel", *update], check=True, capture_output=True)
    snapshot = memreel.load(FILE)
    assert snapshot.gate(baseline=path).is_passed
    found = json.loads(path.read_text(encoding="utf-8"))
    found["devices"][0]["peak_bytes"] -= 1 << 20
    path.write_text(json.dumps(found), encoding="utf-8")
    gate = memreel.gate(FILE, baseline=str(path))
    assert not gate.is_passed and "grew since the baseline" not in str(gate) and "1.00 MiB over the limit" in str(gate)
    with pytest.raises(memreel.UnreadableError, match="baseline not found"):
        snapshot.gate(baseline=tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\x80\x04}\x8c\x05epochK\x03s.", "not a memory snapshot"),
        (b"\x80\x04cos\nsystem\n(\x8c\x0becho broken\x85R.", "GLOBAL would run code"),
        (b"{", "JSON"),
    ],
)
def test_what_is_not_a_snapshot_is_refused(tmp_path, content, why):
    file = tmp_path / "x.pickle"
    file.write_bytes(content)
    with pytest.raises(memreel.UnreadableError, match=why) as refused:
        memreel.load(file)
    assert str(file) in str(refused.value)
    assert isinstance(refused.value, memreel.Error)
    with pytest.raises(memreel.UnreadableError, match="No such file"):
        memreel.load(tmp_path / "missing.pickle")


def test_threads_ask_at_once():
    snapshot = memreel.load(FILE)
    expected, found = repr(snapshot.top()), []
    threads = [threading.Thread(target=lambda: found.append(repr(snapshot.top()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_names_of_a_hostile_file_are_text_in_a_notebook(tmp_path):
    snapshot = plain(FILE)
    for entry in snapshot["device_traces"][0]:
        entry["frames"] = [{"name": "<script>alert(1)</script>", "filename": "a&b<c>", "line": 1}]
    file = tmp_path / "<b>.pickle"
    file.write_bytes(pickle.dumps(snapshot))
    page = memreel.load(file)._repr_html_()
    assert "<script" not in page and "<b>.pickle" not in page
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org", "")


def test_a_notebook_shows_tables_with_sizes_in_words():
    snapshot = memreel.load(FILE)
    top, totals = snapshot.top(), snapshot.summary().peak
    assert "<pre" not in top._repr_html_() and top._repr_html_().count("<tr>") >= len(top.groups)
    for size in (totals.active_bytes, totals.reserved_bytes):
        words = memreel._memreel.bytes_text(size)
        assert f'<span title="{size:,} bytes">{words}</span>' in totals._repr_html_()
    # The picture fits the cell.
    page = snapshot._repr_html_()
    assert "max-width:100%" in page and "<table>" in page and "<pre" not in page


def test_other_libraries_take_tables():
    events = memreel.load(FILE).events
    for take in (pyarrow_rows, polars_rows, pandas_rows, duckdb_rows):
        assert take(events) == len(events), take.__name__
    top = memreel.load(FILE).top()
    assert len(top.table()) == len(top.groups)


def pyarrow_rows(table):
    return pytest.importorskip("pyarrow").table(table).num_rows


def polars_rows(table):
    return pytest.importorskip("polars").DataFrame(table).height


def pandas_rows(table):
    pytest.importorskip("pandas")
    return len(table.to_pandas())


def duckdb_rows(table):
    duckdb = pytest.importorskip("duckdb")
    rows = table  # noqa: F841 - duckdb finds it by its name
    return duckdb.sql("select count(*) from rows").fetchall()[0][0]


def test_empty_tables_have_columns(tmp_path):
    file = tmp_path / "empty.pickle"
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    snapshot = memreel.load(file)
    assert list(snapshot.events) == [] and snapshot.events.column_names[0] == "device"
    assert pytest.importorskip("pyarrow").table(snapshot.events).num_rows == 0


def test_records_have_the_keys_of_the_schema():
    python = Path(__file__).parents[1]
    definitions = json.loads((python.parent / "schema" / "json.schema.json").read_text())["$defs"]
    definitions |= definitions["commands"]["$defs"]
    maker = runpy.run_path(str(python / "generate_records.py"))
    for definition, name in {**maker["ANSWERS"], **maker["LINES"]}.items():
        found = definitions[definition]
        fields = dataclasses.fields(getattr(memreel.records, name))
        assert {one.name for one in fields} == set(found["properties"]), f"{name} is old: python3 python/generate_records.py"
        assert {one.name for one in fields if one.default is dataclasses.MISSING} == set(found["required"]), name


def test_an_answer_without_rows_is_a_table_without_rows():
    import typing

    from memreel import records

    answer = memreel.load(FILE).leaks_older_than(10**9)
    assert len(answer) == 0 and {"bytes", "function"} <= set(answer.table().column_names)
    assert answer.table().to_dicts() == []
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(answer).num_rows == 0
    replay = memreel.load(FILE).replay("expandable_segments:True")
    with pytest.raises(memreel.UsageError, match="has no list"):
        replay.table()
    assert "groups" in typing.get_type_hints(records.Top)


def test_arguments_of_a_wrong_kind_are_said(tmp_path):
    path = FILE
    assert memreel.gate(path, baseline=path).is_passed
    with pytest.raises(memreel.UsageError, match="takes a list"):
        memreel.merge(str(path))
    with pytest.raises(memreel.UsageError, match="'pythn'; use python, all"):
        memreel.record(tmp_path / "x.pickle", stacks="pythn")
    with pytest.raises(memreel.UsageError, match="max_entries is 0"):
        memreel.start(max_entries=0)
    with pytest.raises(memreel.UsageError, match="is a text, not 3"):
        memreel.scope(3)


def test_separators_of_lines_in_names_are_letters(tmp_path):
    made = plain(FILE)
    for entry in made["device_traces"][0]:
        entry["frames"] = [{"name": "one\u2028two\x85three", "filename": "a.py", "line": 1}]
    with open(tmp_path / "x.pickle", "wb") as file:
        pickle.dump(made, file)
    assert memreel.load(tmp_path / "x.pickle").top(by="function").groups


def test_a_pipe_is_refused_at_once(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(memreel.UnreadableError, match="a pipe, not a file"):
        memreel.load(tmp_path / "pipe")


def test_a_page_is_served_until_it_is_closed() -> None:
    with memreel.load(FIXTURES / "torch-2.11/snapshots/oom.pickle").view(open=False) as page:
        assert page.address.startswith("http://127.0.0.1:")
        assert page.address in page._repr_html_()
        with urllib.request.urlopen(page.address) as answer:
            assert b"memreel" in answer.read()
        with urllib.request.urlopen(page.address + "files") as answer:
            assert json.load(answer)["files"][0]["name"].endswith("oom.pickle")
    with pytest.raises(OSError):
        urllib.request.urlopen(page.address)


def test_a_child_of_fork_leaves_the_page_to_its_parent() -> None:
    program = """
import memreel, os, sys, urllib.request
page = memreel.load(sys.argv[1]).view(open=False)
if os.fork() == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
urllib.request.urlopen(page.address)
"""
    words = [sys.executable, "-W", "ignore", "-c", program, FIXTURES / "torch-2.11/snapshots/oom.pickle"]
    subprocess.run(words, check=True, timeout=60)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(memreel.Error, match=f"port {port} is in use"):
            memreel.load(FIXTURES / "torch-2.11/snapshots/oom.pickle").view(port=port, open=False)
