"""PyTorch's samples of operators, or CuPy's ufuncs: python operators.py torch|cupy plain|install OUT.json

Writes a checksum of each result. Operators whose results differ between two plain runs are not comparable.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings

library, mode, out = sys.argv[1:4]
N_SAMPLES = 4
warnings.simplefilter("ignore")


def of_torch():
    import torch

    if mode == "install":
        import memreel

        memreel.install()
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_leaves

    torch.use_deterministic_algorithms(True, warn_only=True)
    found, failed, n = {}, {}, 0
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}"
        torch.manual_seed(0)
        digest = hashlib.sha256()
        try:
            for at, sample in enumerate(op.sample_inputs("cuda", torch.float32, requires_grad=False)):
                if at == N_SAMPLES:
                    break
                n += 1
                result = op(sample.input, *sample.args, **sample.kwargs)
                for leaf in tree_leaves(result):
                    if isinstance(leaf, torch.Tensor) and not leaf.is_sparse and leaf.layout == torch.strided:
                        digest.update(leaf.detach().resolve_conj().resolve_neg().contiguous().cpu().view(torch.uint8).numpy().tobytes()
                                      if leaf.numel() and leaf.dim() else str(leaf.tolist()).encode())
            found[name] = digest.hexdigest()
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"[:120]
    torch.cuda.synchronize()
    return {"results": found, "failed": failed, "n": n, "left_bytes": torch.cuda.memory_allocated()}


def of_cupy():
    import cupy

    if mode == "install":
        import memreel

        memreel.install()
        memreel.start()
    found, failed, n = {}, {}, 0
    for name in sorted(dir(cupy)):
        function = getattr(cupy, name)
        if not isinstance(function, cupy.ufunc):
            continue
        for kinds in function.types:
            n += 1
            inputs, _, _ = kinds.partition("->")
            generator = cupy.random.RandomState(0)
            try:
                arrays = [(generator.rand(300, 70) * 5 + 1).astype(kind) for kind in inputs]
                results = function(*arrays)
                results = results if isinstance(results, tuple) else (results,)
                digest = hashlib.sha256(b"".join(cupy.asnumpy(result).tobytes() for result in results))
                found[f"{name} {kinds}"] = digest.hexdigest()
            except Exception as error:
                failed[f"{name} {kinds}"] = f"{type(error).__name__}: {error}"[:120]
    big = cupy.random.RandomState(1).rand(2000, 2000)
    found["matmul, sort, sum"] = hashlib.sha256(cupy.asnumpy(cupy.sort(big @ big, axis=1).sum(axis=0))).hexdigest()
    answer = {"results": found, "failed": failed, "n": n}
    if mode == "install":
        path = out.replace(".json", ".pickle")
        memreel.dump(path)
        snapshot = memreel.load(path)
        answer["events"] = snapshot.n_events
        answer["findings"] = [finding.rule for finding in snapshot.validate() if finding.severity == "E"]
        answer["pool_bytes"] = cupy.get_default_memory_pool().total_bytes()
    return answer


begin = time.perf_counter()
answer = of_torch() if library == "torch" else of_cupy()
answer["seconds"] = round(time.perf_counter() - begin, 1)
with open(out, "w") as file:
    json.dump(answer, file)
