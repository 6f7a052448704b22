"""Prints the functions that a version of NVIDIA's driver exports, each with the version of CUDA since which it is there.

python3 header.py INCLUDE > functions.txt, where INCLUDE has cuda.h and cudaTypedefs.h, as in the package nvidia-cuda-runtime.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

folder = Path(sys.argv[1])
header = (folder / "cuda.h").read_text(encoding="utf-8")
types = (folder / "cudaTypedefs.h").read_text(encoding="utf-8")
version = int(re.findall(r"#define CUDA_VERSION (\d+)", header)[0])
renamed = dict(re.findall(r"#\s*define (cu\w+)\s+(cu\w+)", header))
twins = {f"{target}_{kind.lower()}" for kind, target in re.findall(r"__CUDA_API_(PT[SD]Z)\((cu\w+)\)", header)}
# The names that later versions took over are declared at the end once more.
of_old = header.index("#if defined(__CUDA_API_VERSION_INTERNAL)", header.index("cuGetExportTable("))
declared = re.compile(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(")
newest = {renamed.get(name, name) for name in declared.findall(header[:of_old])}
since = defaultdict(set)
for name, number, twin in re.findall(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", types):
    since[name + (twin or "")].add(int(number))

print(f"# The functions in cuda.h of CUDA {version // 1000}.{version // 10 % 100}, with the version that has each first (header.py).")
for symbol in sorted(newest | set(declared.findall(header[of_old:])) | twins):
    bare, nth, twin = re.findall(r"^(\w+?)(?:_v(\d))?(_ptsz|_ptds)?$", symbol)[0]
    versions = sorted(since[bare + twin] or since[bare])
    print(symbol, versions[min(int(nth or 1), len(versions)) - 1])
