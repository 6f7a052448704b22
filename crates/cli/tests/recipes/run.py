"""Runs the recipes of docs/guides/recipes.md as they stand there: python run.py KIND...

A block after the comment `<!-- not run: crates/cli/tests/recipes/run.py runs it, KIND -->` is of that kind. Its commands run one after the
other in a folder that has `examples`; each line that the page shows below a command must be in what the command prints. The
program memreel is the first one of PATH. `slurm` needs Slurm and munge, `mpi` needs Open MPI, `gpus` needs two GPUs and PyTorch.
Ends with 4 if a command fails or prints something else.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs/guides/recipes.md"
BLOCK = re.compile(r"<!-- not run: crates/cli/tests/recipes/run\.py runs it, (\w+) -->\n```shell\n(.*?)```", re.DOTALL)


def slurm(folder: Path) -> dict[str, str]:
    """Starts a cluster of this machine alone, which ends with the processes of this run."""
    host = socket.gethostname().split(".")[0]
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    settings = {
        "ClusterName": "one", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmUser": "root", "AuthType": "auth/munge",
        "ProctrackType": "proctrack/pgid", "TaskPlugin": "task/none", "SelectType": "select/cons_tres",
        "StateSaveLocation": folder / "state", "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid", "SlurmdPidFile": folder / "slurmd.pid",
        "SlurmctldLogFile": folder / "slurmctld.log", "SlurmdLogFile": folder / "slurmd.log",
    }  # fmt: skip
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()}", f"PartitionName=all Nodes={host} Default=YES"]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "SLURM_OVERCOMMIT": "1"}
    if subprocess.run(["munge", "-n"], capture_output=True).returncode != 0:
        os.makedirs("/run/munge", exist_ok=True)
        subprocess.run("chown munge /run/munge && su munge -s /bin/sh -c /usr/sbin/munged", shell=True, check=True)
    for service in ("slurmctld", "slurmd"):
        subprocess.run([service], env={**os.environ, **environment}, check=True)
        time.sleep(2)
    return environment


def stop(folder: Path) -> None:
    for pid in folder.glob("*.pid"):
        subprocess.run(["kill", pid.read_text().strip()])


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that the page shows of what it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("  #")[0], []))
        elif line != "...":
            found[-1][1].append(line)
    return found


def run(kind: str, block: str) -> list[str]:
    """Runs the commands of a block; returns what is wrong."""
    with tempfile.TemporaryDirectory() as name:
        work, services = Path(name) / "work", Path(name) / "services"
        work.mkdir()
        services.mkdir()
        (work / "examples").symlink_to(ROOT / "examples")
        wrong = []
        environment = {**os.environ, "COLUMNS": "100"}
        if kind == "slurm":
            environment.update(slurm(services))
        if kind == "mpi":
            environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            environment.update(OMPI_MCA_rmaps_base_oversubscribe="1")
        try:
            for command, lines in commands(block):
                print(f"$ {command}", flush=True)
                ran = subprocess.run(command, shell=True, cwd=work, env=environment, text=True, timeout=300,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
                print(ran.stdout[-4000:], flush=True)
                # 1 is a finding, such as a rank that differs.
                if ran.returncode not in (0, 1):
                    wrong.append(f"{command}: status {ran.returncode}")
                wrong += [f"{command}: does not print {line!r}" for line in lines if line not in ran.stdout]
        finally:
            stop(services)
        return wrong


def main() -> int:
    blocks = BLOCK.findall(PAGE.read_text())
    kinds = sys.argv[1:]
    if not kinds or not set(kinds) <= {kind for kind, _ in blocks}:
        print(f"{__doc__}\nkinds: {', '.join(sorted({kind for kind, _ in blocks}))}", file=sys.stderr)
        return 2
    wrong = [line for kind, block in blocks if kind in kinds for line in run(kind, block)]
    print("\n".join(wrong) or f"{sum(kind in kinds for kind, _ in blocks)} recipes ran")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
