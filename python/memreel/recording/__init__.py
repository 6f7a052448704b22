"""Recording this process: `record`, `start`, `stop`, `dump`, `scope` and `on_oom`.

They use the source that the process has (`chosen.py`): everything, if it was started under `memreel record`; memreel's own
history, if it is the allocator; else PyTorch's.
"""

from __future__ import annotations

from memreel.recording.oom import on_oom
from memreel.recording.scopes import scope
from memreel.recording.session import dump, record, start, stop

__all__ = ["dump", "on_oom", "record", "scope", "start", "stop"]
