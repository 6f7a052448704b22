"""Executes the notebook, and writes it with what it shows: python execute.py [OUTPUT.ipynb]

Needs nbclient and ipykernel. A cell that fails ends it with that cell's error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent

notebook = nbformat.read(HERE / "tour.ipynb", as_version=4)
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(HERE)}}).execute()
for cell in notebook.cells:
    # When and in which order it ran is of no use to a reader.
    cell.metadata.pop("execution", None)
if len(sys.argv) > 1:
    nbformat.write(notebook, sys.argv[1])
print(f"{sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
