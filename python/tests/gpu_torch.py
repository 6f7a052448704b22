"""Run on a machine with a GPU and PyTorch: each program under the hook, and what it left."""

import glob
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
LOOP = "import torch\nx=[torch.randn(1000,1000,device='cuda') for _ in range(20)]\ny=x[0]@x[1]\ntorch.cuda.synchronize()\n"
PROGRAMS = {
    "native": (LOOP, {}),
    "async": (LOOP, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "expandable": (LOOP, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "off": (LOOP + "torch.cuda.memory._record_memory_history(enabled=None)\n", {}),
    "no cuda": ("import torch\nassert not torch.cuda.is_initialized()\n", {}),
    "user first": ("import torch\ntorch.cuda.memory._record_memory_history(max_entries=9)\n" + LOOP
                   + "assert len(torch.cuda.memory._snapshot()['device_traces'][0]) == 9\n", {}),
    "graph": (LOOP + "g=torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n  z=x[0]@x[1]\ng.replay()\n"
              "import time\ntime.sleep(0.5)\n", {"MEMREEL_TORCH_EVERY": "0.1"}),
    "compile": ("import torch\n@torch.compile(mode='reduce-overhead')\ndef f(x): return (x@x).relu()+1\n"
                "for _ in range(5): f(torch.ones(64,64,device='cuda'))\ntorch.cuda.synchronize()\n", {"MEMREEL_TORCH_EVERY": "0.1"}),
    "profiler": (LOOP + "from torch.profiler import profile, ProfilerActivity\n"
                 "with profile(activities=[ProfilerActivity.CUDA]) as p:\n  x[0]@x[1]; torch.cuda.synchronize()\n"
                 "assert len(p.events()) > 0\n", {}),
    "spawn": ("import multiprocessing as m\ndef f():\n  import torch; torch.ones(9,device='cuda')\n"
              "if __name__=='__main__':\n  p=m.get_context('spawn').Process(target=f); p.start(); p.join(); assert p.exitcode==0\n", {}),
    "fork": ("import multiprocessing as m\ndef f():\n  import torch; torch.ones(9,device='cuda')\n"
             "if __name__=='__main__':\n  p=m.get_context('fork').Process(target=f); p.start(); p.join(); assert p.exitcode==0\n", {}),
}
for stacks in ("python", "native"):
    PROGRAMS["100k events, " + stacks] = (
        "import torch,time\nl=torch.nn.Sequential(*[torch.nn.Linear(64,64) for _ in range(50)]).cuda()\n"
        "for _ in range(300): l(torch.ones(9,64,device='cuda')).sum().backward()\n"
        "t=time.time(); s=torch.cuda.memory._snapshot(); print(len(s['device_traces'][0]),'events', round(time.time()-t,2),'s')\n",
        {"MEMREEL": "all,stacks=" + stacks},
    )
for name, (text, variables) in PROGRAMS.items():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        Path(path).write_text(text)
        record = os.path.join(folder, "record")
        os.mkdir(record)
        hook = {"PYTHONPATH": os.path.join(os.path.dirname(HERE), "memreel_record"), "MEMREEL_RECORD": record}
        start = time.time()
        done = subprocess.run([sys.executable, path], env={**os.environ, **hook, **variables}, capture_output=True)
        print("==", name, done.returncode, round(time.time() - start, 1), "s", done.stdout.decode().strip(), done.stderr.decode()[-400:])
        for file in sorted(glob.glob(record + "/*")):
            if file.endswith("json"):
                print("  ", Path(file).read_text())
            else:
                s = pickle.loads(Path(file).read_bytes())
                print("  ", len(s["segments"]), "segments", [len(t) for t in s["device_traces"]][:2], os.path.getsize(file), "bytes")
