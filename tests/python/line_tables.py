"""Prints the line tables of functions, and the line that this interpreter gives each instruction.

    for python in python3.9 … python3.15; do $python line_tables.py; done > ../../src/python/line_tables.txt

Each line has the version, the first line, the table in hexadecimal, and ranges of offsets with their line (0: none).
"""

import ctypes
import sys

FUNCTIONS = [
    "def f(): pass",
    "def f(a, b):\n  x = a\n  return (x +\n    b)",
    "def f(a):\n  for i in a:\n    if i:\n      continue\n    print(i)\n  else:\n    return 1",
    "def f(a):\n  try:\n    a()\n  except ValueError as e:\n    print(e)\n  finally:\n    a.close()",
    "def f(a):\n  with a as b, \\\n       a as c:\n    return [x for x in b\n            if x]",
    "def f(a):\n  return a(\n    1,\n    a(\n      2),\n    *a, b=a(3)\n  )",
    "def f():" + "\n" * 300 + "  x = 1" + "\n" * 700 + "  return x",
    "def f(a):\n  return " + "\\\n(a.b +\\\n" * 12 + "1" + ")" * 12,
    "def f(a):\n  x = [" + "a.b.c.d, " * 60 + "]\n  return x",
    "def f(a):\n  return (" + " + ".join(f"a.b({i})" for i in range(40)) + ")\n",
    "async def f(a):\n  async with a:\n    async for i in a:\n      await i\n      yield i",
    "def f(a):\n  while a:\n    try:\n      a = a.b\n    except (KeyError,\n            ValueError):\n      break\n    finally: a = 1\n  del a",
    "@deco\n@deco(\n  1)\ndef f(a, b=[\n  1]):\n  def g():\n    nonlocal a\n    a = 1\n  return g",
    "def f(a):\n  return lambda: (\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\na,\n  f(\n  a))",
    "class C:\n  x: int = 1\n\n  @property\n  def p(self):\n    return super().p\n",
]

line_of = ctypes.pythonapi.PyCode_Addr2Line
line_of.argtypes = [ctypes.py_object, ctypes.c_int]


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def ranges(code):
    """The ranges of offsets with the same line."""
    lines = [max(line_of(code, offset), 0) for offset in range(0, len(code.co_code), 2)]
    if hasattr(code, "co_lines"):
        stated = {at: line or 0 for start, end, line in code.co_lines() for at in range(start, end, 2)}
        assert lines == [stated[2 * i] for i in range(len(lines))], code
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or lines[i] != lines[start]:
            yield f"{2 * start}-{2 * i}:{lines[start]}"
            start = i


for source in FUNCTIONS:
    for code in codes(compile(source, "f.py", "exec")):
        table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
        if table:
            print(f"3.{sys.version_info[1]}", code.co_firstlineno, table.hex(), *ranges(code))
