"""A session with `memreel mcp`, by hand: JSON lines on two pipes, with Python's standard library alone.

    cargo build -p memreel-cli
    python3 examples/mcp_session.py                                # target/debug/memreel
    python3 examples/mcp_session.py python3 -m memreel             # an installed wheel

It lists the tools, asks what holds the memory and what changed between two snapshots, and then asks about a file that was
made to run a command. A real client is an assistant or an editor, and starts the server itself: docs/mcp.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SNAPSHOTS = REPOSITORY / "fixtures" / "torch-2.11" / "snapshots"


class Session:
    """A server, and the session with it."""

    def __init__(self, program: list[str]) -> None:
        self.server = subprocess.Popen([*program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.last_id = 0
        client = {"name": "mcp_session.py", "version": "1"}
        self.info = self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer."""
        assert self.server.stdout is not None
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        for line in self.server.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self.last_id:
                result: dict[str, Any] = answer.get("result", answer)
                return result
        sys.exit("the server has closed the session")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Calls a tool, and prints the call and its answer."""
        print(f"\n> {tool} {json.dumps(arguments)}")
        answer = self.request("tools/call", name=tool, arguments=arguments)
        print("error:" if answer["isError"] else "answer:")
        for block in answer["content"]:
            print(block["text"].rstrip("\n"))
        return answer

    def close(self) -> int:
        """Closes the session; returns the server's exit status."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        return self.server.wait()


def main() -> None:
    session = Session(sys.argv[1:] or [str(REPOSITORY / "target" / "debug" / "memreel")])
    server = session.info["serverInfo"]
    print(f"{server['name']} {server['version']}, protocol {session.info['protocolVersion']}")
    for tool in session.request("tools/list")["tools"]:
        print(f"  {tool['name']:<14} {', '.join(tool['inputSchema']['properties'])}")

    oom, fragment = str(SNAPSHOTS / "oom.pickle"), str(SNAPSHOTS / "oom_fragment.pickle")
    session.call("top", files=[oom], n=2)
    session.call("diff", before=oom, after=fragment, n=2)
    objects = session.call("top", files=[oom], n=1, json=True)["structuredContent"]["objects"]
    print(f"as data: {objects[0]['active_bytes']} bytes in use")

    with tempfile.TemporaryDirectory() as folder:
        hostile = Path(folder) / "hostile.pickle"
        # Python's own reader would run the command.
        hostile.write_bytes(b"\x80\x04cos\nsystem\n(\x8c\x0aecho ownedtR.")
        session.call("summary", files=[str(hostile)])

    print(f"\nthe server ended with status {session.close()}")


if __name__ == "__main__":
    main()
