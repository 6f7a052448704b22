"""`python -m memreel mcp`: the example's session, and one with the official client if it is installed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SNAPSHOT = REPOSITORY / "fixtures" / "torch-2.11" / "snapshots" / "oom.pickle"


def test_the_example_runs_with_the_wheel(tmp_path: Path) -> None:
    # A module of this name in the client's folder must not be the program.
    (tmp_path / "memreel.py").write_text("raise SystemExit('the wrong module')")
    words = [sys.executable, str(REPOSITORY / "examples" / "mcp_session.py"), str(script(tmp_path))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "peak: 960.00 MiB in use in 15 blocks" in done.stdout
    assert "the opcode GLOBAL would run code" in done.stdout
    assert "the server ended with status 0" in done.stdout


def script(folder: Path) -> Path:
    """Writes the console script that the wheel installs."""
    path = folder / "bin" / "memreel"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom memreel._program import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path


def test_the_official_client_asks_and_gets_answers() -> None:
    pytest.importorskip("mcp.client.stdio")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-m", "memreel", "mcp"], env=dict(os.environ))

    async def session() -> None:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert {"summary", "top", "diff", "oom"} <= tools
            # Two at once.
            text, data = await asyncio.gather(
                client.call_tool("top", {"files": [str(SNAPSHOT)]}),
                client.call_tool("top", {"files": [str(SNAPSHOT)], "json": True}),
            )
            assert "960.00 MiB in use" in text.content[0].text
            wire = data.model_dump(by_alias=True)
            assert wire["structuredContent"]["objects"][0]["active_bytes"] == 960 << 20
            refused = await client.call_tool("top", {"files": ["/dev/zero"]})
            assert refused.model_dump(by_alias=True)["isError"] is True

    asyncio.run(session())
