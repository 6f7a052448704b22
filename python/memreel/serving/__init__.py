"""memreel as the allocator of PyTorch and CuPy: `install`.

`install.py` makes it so; `torch_entries.py` and `torch_pools.py` have what PyTorch's functions ask of an allocator and
refuse for one that is not PyTorch's own.
"""

from __future__ import annotations

from memreel.serving.install import install

__all__ = ["install"]
