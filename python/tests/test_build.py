"""A build says on the terminal what it does, because pip hides what a backend prints."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[1] / "backend"
PROGRAM = f"import sys; sys.path.insert(0, {str(BACKEND)!r}); import memreel_build; memreel_build.announce()"

pytest.importorskip("maturin", reason="the backend imports it")


def on_a_terminal(path: str) -> str:
    """What the terminal shows while standard output and standard error are hidden, as pip does."""
    child, terminal = pty.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.execve(sys.executable, [sys.executable, "-c", PROGRAM], os.environ | {"PATH": path})
    text = b""
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            # The end of a terminal, on Linux.
            break
        if not read:
            break
        text += read
    assert os.waitpid(child, 0)[1] == 0
    return text.decode()


def test_the_terminal_shows_how_long_a_build_takes(tmp_path):
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\n")
    cargo.chmod(0o755)
    assert "about ten processor minutes" in on_a_terminal(str(tmp_path))


def test_the_terminal_shows_that_rust_is_missing(tmp_path):
    assert "the build needs Rust 1.88" in on_a_terminal(str(tmp_path))


def test_without_a_terminal_the_log_has_it(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ | {"PATH": str(tmp_path)},
                          start_new_session=True, check=True)
    assert "the build needs Rust 1.88" in done.stderr
