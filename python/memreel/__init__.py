"""memreel records the memory of GPUs and hosts, and answers questions about PyTorch snapshots and memreel.

    import memreel

    with memreel.record("run.pickle"):
        train()

    snapshot = memreel.load("run.pickle")
    print(snapshot.top())

Names are imported when they are first used, so that `import memreel` costs a program nothing.
"""

from __future__ import annotations

from memreel._errors import (
    Error,
    GateError,
    HistoryError,
    MemreelWarning,
    NothingYet,
    RecordingError,
    UnreadableError,
    UsageError,
)

# Known to type checkers; `typing` takes longer to import than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memreel import records
    from memreel.asking import diff, gate, leaks, merge, oom, owners, top
    from memreel.fitting import Sizes, fit
    from memreel.ranking import Ranks, ranks
    from memreel.recording import dump, on_oom, record, scope, start, stop
    from memreel.server import serve_metrics
    from memreel.serving import install
    from memreel.snapshot import Snapshot, load
    from memreel.table import Table
    from memreel.viewing import live

__all__ = [
    "Error",
    "GateError",
    "HistoryError",
    "MemreelWarning",
    "NothingYet",
    "Ranks",
    "RecordingError",
    "Sizes",
    "Snapshot",
    "Table",
    "UnreadableError",
    "UsageError",
    "__version__",
    "diff",
    "dump",
    "fit",
    "gate",
    "install",
    "leaks",
    "live",
    "load",
    "merge",
    "on_oom",
    "oom",
    "owners",
    "ranks",
    "record",
    "records",
    "scope",
    "serve_metrics",
    "start",
    "stop",
    "top",
]

__version__ = "0.1.0"

# The module of each name that is imported when it is first used.
_MODULES = {
    **dict.fromkeys(("Snapshot", "load"), "memreel.snapshot"),
    **dict.fromkeys(("diff", "gate", "leaks", "merge", "oom", "owners", "top"), "memreel.asking"),
    **dict.fromkeys(("Ranks", "ranks"), "memreel.ranking"),
    **dict.fromkeys(("Sizes", "fit"), "memreel.fitting"),
    **dict.fromkeys(("dump", "on_oom", "record", "scope", "start", "stop"), "memreel.recording"),
    "Table": "memreel.table",
    "install": "memreel.serving",
    "serve_metrics": "memreel.server",
    "live": "memreel.viewing",
}


def __getattr__(name: str) -> object:
    if name == "records":
        from importlib import import_module

        return import_module("memreel.records")
    if name not in _MODULES:
        raise AttributeError(f"module 'memreel' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
