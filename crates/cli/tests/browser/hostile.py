"""Writes snapshots whose names try to break a page. Usage: python3 hostile.py FOLDER"""
import json
import pickle
import sys

NAMES = [
    "<script>window.__ran=1</script>", "<img src=x onerror=window.__ran=1>", "\"><svg onload=window.__ran=1>",
    "'><iframe srcdoc='<script>parent.__ran=1</script>'>", "javascript:window.__ran=1", "</script><script>window.__ran=1</script>",
    "</title></style></textarea><script>window.__ran=1</script>", "<style>*{display:none}</style>", "<base href=http://example.invalid/>",
    "<meta http-equiv=refresh content='0;url=http://example.invalid/'>", "<link rel=stylesheet href=http://example.invalid/x.css>",
    "${window.__ran=1}", "{{constructor.constructor('window.__ran=1')()}}", "`;window.__ran=1;`", "\\';window.__ran=1;//", "&lt;b&gt;&amp;&#60;",
    "\u202egnp.exe\u202c \u2066\u2067\u2068\u2069\u200f\u061c", "a\x00b\x01\x07\x08\x1b[31m\x7f\x85", "line\nline\r\nline\u2028line\u2029",
    "__proto__", "constructor", "toString", "hasOwnProperty", "", " ", "\t", "\ufeff", "\ufffe\uffff", "\ud800", "\udfff\ud800<b>", "a\u0300" * 500, "\U0001f469\u200d\U0001f469" * 40,
    "W" * 1_000_000, "<b>" * 200_000, "/very/long" * 20_000 + "/<script>window.__ran=1</script>.py", "%00%0a%3Cscript%3E", "C:\\a\\..\\<b>.py", "../../../etc/passwd",
]
MIB = 1 << 20


def snapshot(names):
    """Returns a snapshot with one block for each name, which is in its frames, scopes, file and settings."""
    base, events, blocks = 0x7F0000000000, [], []
    events.append({"action": "segment_alloc", "addr": base, "size": len(names) * MIB, "stream": 0, "time_us": 1, "frames": []})
    for number, name in enumerate(names):
        frames = [{"name": name, "filename": name, "line": number}, {"name": "outer " + name, "filename": "/a/" + name, "line": 2**31}]
        event = {"action": "alloc", "addr": base + number * MIB, "size": MIB - 7, "stream": 0, "time_us": 2 + number, "frames": frames, "user_metadata": name, "compile_context": name}
        events.append(event)
        blocks.append({"size": MIB, "requested_size": MIB - 7, "address": event["addr"], "state": "active_allocated", "frames": frames, "user_metadata": name})
    events.append({"action": "oom", "addr": 2**20, "device_free": 2**20, "size": 2**40, "stream": 0, "time_us": 99, "frames": events[1]["frames"]})
    annotations = [{"name": name, "stage": stage, "device": 0, "time_us": at} for name in names for stage, at in (("START", 2), ("END", 60))]
    segment = {"address": base, "total_size": len(names) * MIB, "allocated_size": len(names) * MIB, "active_size": len(names) * MIB, "stream": 0, "device": 0,
               "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}
    settings = {"PYTORCH_CUDA_ALLOC_CONF": names[0], names[1]: names[-1]}
    return {"segments": [segment], "device_traces": [events], "allocator_settings": settings, "external_annotations": annotations}


def main(folder):
    for name, names in (("short", [name for name in NAMES if len(name) < 5000]), ("long", [name for name in NAMES if len(name) >= 1000])):
        with open(f"{folder}/{name}.pickle", "wb") as file:
            pickle.dump(snapshot(names), file)
    for number, name in enumerate(("<img src=x onerror=window.__ran=1>", "\"onmouseover=window.__ran=1 x=\"\u202e")):
        with open(f"{folder}/{name}{number}.pickle", "wb") as file:
            pickle.dump(snapshot(NAMES[:4]), file)
    text = json.dumps(snapshot([name for name in NAMES if (1 < len(name) < 5000 and name.isprintable()) or ("<" in name and name.isascii())]))
    with open(f"{folder}/surrogates.json", "w") as file:
        file.write(text.replace("window.__ran=1", "\\ud800window.__ran=1\\udfff"))
    with open(f"{folder}/proto.json", "w") as file:
        file.write(text.replace('"user_metadata"', '"__proto__"'))


main(sys.argv[1])
