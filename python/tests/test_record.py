"""Tests of the hook that `memreel record` puts in front of PYTHONPATH, with a stand-in for torch.

Run with any Python from 3.8 on: python3 -m unittest discover python/tests
"""

import glob
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "memreel_record")

# A torch with the parts that the hook uses. It writes each call into the file CALLS.
TORCH = """
import os, sys, types
def note(*what):
    with open(os.environ["CALLS"], "a") as file:
        print(os.getpid() == int(os.environ.get("FIRST", os.getpid())), *what, file=file)
def module(name, **members):
    found = types.ModuleType(name)
    found.__dict__.update(members)
    sys.modules[name] = found
    return found
note("imported")
state = {"init": False, "bad": False, "queue": []}
def record(enabled, context, stacks, max_entries, clear=False):
    cuda._lazy_init()
    note("record", enabled, context, stacks, max_entries)
    if os.environ.get("NO_HISTORY"):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory")
def snapshot(device=None):
    assert state["init"]
    note("snapshot")
    if os.environ.get("NO_SNAPSHOT"):
        raise RuntimeError("no snapshot")
    return {"segments": [], "device_traces": [[]], "allocator_settings": {"a": 1, "roundup_power2_divisions": {}}}
_C = module("torch._C", _cuda_record_memory_history=record, _cuda_memorySnapshot=snapshot)
memory = module("torch.cuda.memory")
def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=99):
    return _C._cuda_record_memory_history(enabled, context, stacks, max_entries)
memory._record_memory_history = _record_memory_history
memory._snapshot = lambda: _C._cuda_memorySnapshot(None)
class CUDAGraph:
    def capture_begin(self): pass
    def capture_end(self): pass
cuda = module("torch.cuda", memory=memory, CUDAGraph=CUDAGraph)
cuda.is_initialized = lambda: state["init"] and not state["bad"]
def _lazy_init():
    if state["init"]: return
    note("init")
    state["init"] = True
    for call in state["queue"]: call()
cuda._lazy_init = _lazy_init
cuda._lazy_call = lambda call: call() if state["init"] else state["queue"].append(call)
def forked():
    state["bad"] = state["init"]
os.register_at_fork(after_in_child=forked)
__version__ = "2.11.0"
"""


def pythons():
    """Returns the interpreters of this machine, each once: on the path, and those of pyenv."""
    names = ["python2.7", "python3", "pypy", "pypy3", "graalpy"]
    found = [shutil.which(name) for name in names]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found += glob.glob(os.path.join(root, "versions", "*", "bin", "python"))
    # A shim of pyenv runs no interpreter but those that are chosen.
    return sorted({os.path.realpath(path) for path in found if path and "shims" not in path})


def is_recent(python):
    """Returns whether PyTorch has a history in an interpreter of this version."""
    code = "import sys; sys.exit(sys.version_info < (3, 8))"
    return subprocess.run([python, "-S", "-c", code], timeout=60).returncode == 0


class Hook(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.root = self.temporary.name
        for name in ("user", "record"):
            os.mkdir(os.path.join(self.root, name))
        self.write("user/torch.py", TORCH)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_python(self, text, code=0, stderr="", flags=(), **variables):
        """Runs a program under the hook, and returns what torch was asked and what the program printed."""
        path = self.write("program.py", text)
        calls = os.path.join(self.root, "calls")
        open(calls, "w").close()
        user = os.path.join(self.root, "user")
        environment = dict(os.environ, PYTHONPATH=FOLDER + os.pathsep + user, CALLS=calls)
        environment.update(MEMREEL_RECORD=os.path.join(self.root, "record"), PYTHONDONTWRITEBYTECODE="1")
        environment.update(variables)
        done = subprocess.run(
            [sys.executable, *flags, path], env=environment, capture_output=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stderr.decode()), (code, stderr))
        with open(calls) as file:
            # Without the column of the process.
            self.calls = [line.split(" ", 1)[1].strip() for line in file]
        return done.stdout.decode()

    def dumps(self):
        folder = os.path.join(self.root, "record")
        found = {}
        for name in sorted(os.listdir(folder)):
            self.assertFalse(name.startswith("."), "a temporary file is left: " + name)
            with open(os.path.join(folder, name), "rb") as file:
                found[name.split("-")[1]] = pickle.load(file) if name.endswith("pickle") else json.loads(file.read())
        return found

    def test_the_history_begins_with_cuda_and_is_dumped_at_the_exit(self):
        self.run_python("import torch\ntorch.note('program')\ntorch.cuda._lazy_init()\n")
        self.assertEqual(
            self.calls, ["imported", "program", "init", "record all all python 250000", "snapshot"]
        )
        found = self.dumps()
        facts = found["torch.json"]
        self.assertEqual((facts["reason"], facts["history"], facts["torch"]), ("exit", "on", "2.11.0"))
        settings = found["torch.pickle"]["allocator_settings"]
        self.assertEqual(list(settings), ["a", "memreel_torch_time_us", "roundup_power2_divisions"])
        self.assertEqual(settings["memreel_torch_time_us"], facts["time_us"])
        self.assertLess(abs(time.time() * 1e6 - facts["time_us"]), 60e6)

    def test_without_cuda_nothing_is_called_or_written(self):
        self.run_python("import torch\n")
        self.assertEqual((self.calls, self.dumps()), (["imported"], {}))

    def test_a_program_without_torch_loads_nothing(self):
        text = "import sys\nprint([m for m in sys.modules if 'memreel' in m or m == 'sitecustomize'], len(sys.path))\n"
        printed = self.run_python(text)
        plain = subprocess.run(
            [sys.executable, os.path.join(self.root, "program.py")],
            env=dict(os.environ, PYTHONPATH=os.path.join(self.root, "user")),
            stdout=subprocess.PIPE,
        )
        self.assertEqual(printed, plain.stdout.decode())

    def test_a_trace_of_the_program_has_no_file_of_ours(self):
        # `coverage` and the module `trace` list the files whose lines run.
        text = """
            import sys
            files = set()
            def trace(frame, event, argument):
                files.add(frame.f_code.co_filename)
            sys.settrace(trace)
            import colorsys
            sys.settrace(None)
            print([file for file in files if "memreel_record" in file])
        """
        self.assertEqual(self.run_python(textwrap.dedent(text)), "[]\n")

    def test_it_can_be_switched_off(self):
        self.run_python("import torch\ntorch.cuda._lazy_init()\n", MEMREEL_TORCH="0")
        self.assertEqual((self.calls, self.dumps()), (["imported", "init"], {}))

    def test_options_are_those_of_memreel(self):
        for memreel, expected in [
            ("all,stacks=none", "None python 250000"),
            ("all,stacks=native,ring=77", "all all 77"),
            ("all, stacks = python, context=alloc", "alloc python 250000"),
            ("all,ring=x", "all python 250000"),
        ]:
            self.run_python("import torch\ntorch.cuda._lazy_init()\n", MEMREEL=memreel)
            self.assertEqual(self.calls[2], "record all " + expected)

    def test_the_users_sitecustomize_runs_as_without_us(self):
        self.write("user/sitecustomize.py", "import sys\nprint(__name__, __file__)\nMARK = 1\n")
        printed = self.run_python("import sitecustomize, torch\nprint(sitecustomize.MARK)\ntorch.cuda._lazy_init()\n")
        self.assertEqual(
            printed.split(), ["sitecustomize", os.path.join(self.root, "user", "sitecustomize.py"), "1"]
        )
        self.assertIn("snapshot", self.calls)

    def test_an_error_of_the_users_sitecustomize_stays_the_users(self):
        self.write("user/sitecustomize.py", "raise ValueError('mine')\n")
        stderr = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nValueError: mine\n"
        self.run_python("import torch\ntorch.cuda._lazy_init()\n", stderr=stderr)
        self.assertIn("snapshot", self.calls)

    def test_every_python_imports_as_without_us(self):
        """Also the oldest, and what is no CPython."""
        text = "import json, subprocess, sys\ntry:\n import sitecustomize\nexcept ImportError as error:\n print(error)\n"
        text += "print('Torch' in repr(sys.meta_path), len(sys.path))\n"
        program = self.write("program.py", text)
        environment = dict(os.environ, MEMREEL_RECORD=self.root, PYTHONDONTWRITEBYTECODE="1")
        environment.pop("PYTHONPATH", None)
        for python in pythons():
            # Debian's Python has a sitecustomize of its own, and one of ours may be on the path.
            for user in None, "import sys\nsys.stdout.write('of the user\\n')\n":
                folder = os.path.join(self.root, "of_user")
                os.makedirs(folder, exist_ok=True)
                if user is not None:
                    self.write("of_user/sitecustomize.py", user)
                found = []
                for path in folder, FOLDER + os.pathsep + folder:
                    command = [python, program]
                    done = subprocess.run(command, env=dict(environment, PYTHONPATH=path), capture_output=True, timeout=60)
                    is_modern = b"True" in done.stdout
                    found.append((done.returncode, done.stdout.replace(b"True", b"False")))
                self.assertEqual(found[0], found[1], (python, user, done.stderr[-500:]))
                self.assertEqual(found[0][0], 0, (python, done.stderr[-500:]))
                self.assertEqual(done.stderr, b"", python)
            os.remove(os.path.join(folder, "sitecustomize.py"))
            self.assertEqual(is_modern, is_recent(python), python)

    def test_an_error_of_the_hook_leaves_nothing_of_it(self):
        hook = os.path.join(self.root, "hook")
        os.mkdir(hook)
        with open(os.path.join(FOLDER, "sitecustomize.py")) as file:
            source = file.read()
        for good, bad in ("co_filename=", "no_such="), ("if \"torch\" in _sys", "if no_such in _sys"):
            self.assertIn(good, source)
            self.write("hook/sitecustomize.py", source.replace(good, bad))
            text = "import sys\nprint([f for f in sys.meta_path if 'Torch' in repr(f)])\nimport torch\n"
            printed = self.run_python(text, PYTHONPATH=hook + os.pathsep + os.path.join(self.root, "user"))
            self.assertEqual(printed, "[]\n")
        self.write("hook/sitecustomize.py", source.replace("getattr(loader, \"__dict__\", {})", "no_such"))
        text = "import torch, sys\nprint([f for f in sys.meta_path if 'Torch' in repr(f)])\n"
        printed = self.run_python(text, PYTHONPATH=hook + os.pathsep + os.path.join(self.root, "user"))
        self.assertEqual((printed, self.calls), ("[]\n", ["imported"]))

    def test_a_torch_that_fails_to_import_can_be_imported_again(self):
        self.write("user/torch.py", "import os\nif 'FAIL' in os.environ: raise ImportError('broken')\n" + TORCH)
        text = """
            import os
            os.environ["FAIL"] = "1"
            try:
                import torch
            except ImportError as error:
                assert str(error) == "broken"
            del os.environ["FAIL"]
            import torch
            assert torch.__spec__.loader.exec_module.__qualname__.startswith("_LoaderBasics")
            torch.cuda._lazy_init()
        """
        self.run_python(text)
        self.assertEqual(self.calls.count("record all all python 250000"), 1)

    def test_the_programs_calls_win(self):
        text = """
            import torch
            record = torch.cuda.memory._record_memory_history
            record("state", max_entries=5)
            record(max_entries=7)
        """
        self.run_python(text)
        expected = ["record all all python 250000", "record state all all 5", "record all all all 7", "snapshot"]
        self.assertEqual(self.calls[2:], expected)
        self.assertTrue(self.dumps()["torch.json"]["by_program"])

    def test_a_history_that_is_switched_off_is_dumped_before_and_noted(self):
        text = """
            import torch
            torch.cuda._lazy_init()
            torch.cuda.memory._record_memory_history(None)
            torch.note("end")
        """
        self.run_python(text)
        self.assertEqual(self.calls[3:], ["snapshot", "record None all all 99", "end"])
        facts = self.dumps()["torch.json"]
        self.assertEqual((facts["history"], facts["by_program"]), ("off", True))
        self.assertLessEqual(facts["time_us"], facts["history_since_us"])
        self.assertIn("torch.pickle", self.dumps())

    def test_a_backend_without_history_is_noted_and_silent(self):
        self.run_python("import torch\ntorch.cuda._lazy_init()\n", NO_HISTORY="1")
        facts = self.dumps()
        self.assertEqual(list(facts), ["torch.json"])
        self.assertEqual(facts["torch.json"]["history"], "unavailable")
        self.assertIn("cudaMallocAsync", facts["torch.json"]["why"])

    def test_a_failed_dump_is_one_line(self):
        line = "memreel: PyTorch's blocks could not be written: no snapshot\n"
        self.run_python(
            "import torch, time\ntorch.cuda._lazy_init()\ntime.sleep(0.5)\n",
            stderr=line, NO_SNAPSHOT="1", MEMREEL_TORCH_EVERY="0.1",
        )
        self.assertEqual(self.dumps(), {})

    def test_a_folder_that_is_gone_is_one_line(self):
        text = "import os, torch\nos.rmdir(os.environ['MEMREEL_RECORD'])\ntorch.cuda._lazy_init()\n"
        path = os.path.join(self.root, "record", "")
        with self.assertRaises(AssertionError) as found:
            self.run_python(text)
        self.assertIn("memreel: PyTorch's blocks could not be w", str(found.exception))
        self.assertIn("differing element 1", str(found.exception), "the status is 0")
        os.mkdir(path)

    def test_dumps_at_intervals_pause_during_captures(self):
        text = """
            import os, torch, time
            torch.cuda._lazy_init()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            time.sleep(0.6)
            torch.note("captured")
            graph.capture_end()
            until = time.monotonic() + 30
            while "snapshot" not in open(os.environ["CALLS"]).read() and time.monotonic() < until:
                time.sleep(0.05)
            torch.note("end")
        """
        self.run_python(text, MEMREEL_TORCH_EVERY="0.2")
        captured, end = self.calls.index("captured"), self.calls.index("end")
        self.assertNotIn("snapshot", self.calls[:captured])
        self.assertIn("snapshot", self.calls[captured:end])
        self.assertEqual(self.dumps()["torch.json"]["reason"], "exit")

    def test_every_end_of_a_process(self):
        for end, code, stderr in [("sys.exit(3)", 3, ""), ("raise SystemExit('x')", 1, "x\n")]:
            self.run_python("import sys, torch\ntorch.cuda._lazy_init()\n" + end + "\n", code=code, stderr=stderr)
            self.assertEqual(self.calls[-1], "snapshot")
        self.run_python("import os, torch\ntorch.cuda._lazy_init()\nos._exit(4)\n", code=4)
        self.assertNotIn("snapshot", self.calls)

    def test_children_of_multiprocessing(self):
        for method in ("spawn", "fork", "forkserver"):
            text = f"""
                import multiprocessing, os, sys
                def work():
                    import torch
                    torch.cuda._lazy_init()
                if __name__ == "__main__":
                    process = multiprocessing.get_context({method!r}).Process(target=work)
                    process.start()
                    process.join()
                    folder = os.environ["MEMREEL_RECORD"]
                    assert os.path.exists(os.path.join(folder, "%d-torch.pickle" % process.pid)), os.listdir(folder)
            """
            with self.subTest(method):
                self.run_python(text)
                self.assertEqual(self.calls.count("snapshot"), 1)

    def test_a_child_of_fork_leaves_the_parents_cuda_alone(self):
        text = """
            import os, sys, torch
            torch.cuda._lazy_init()
            if os.fork() == 0:
                torch.note("child")
                sys.exit(0)
            os.wait()
            torch.note("parent")
        """
        # Python 3.12 warns of a fork beside threads; CUDA has threads of its own.
        self.run_python(text, flags=["-W", "ignore"], MEMREEL_TORCH_EVERY="100")
        self.assertEqual(self.calls[3:], ["child", "parent", "snapshot"])
        self.assertEqual(len(self.dumps()), 2)

    def test_a_child_of_fork_may_use_cuda_first(self):
        text = """
            import os, sys, torch
            if os.fork() == 0:
                torch.cuda._lazy_init()
                sys.exit(0)
            os.wait()
            torch.note("parent")
        """
        self.run_python(text)
        self.assertEqual(self.calls[2:], ["record all all python 250000", "snapshot", "parent"])

    def test_python_that_ignores_the_environment_is_left_alone(self):
        self.run_python("print('fine')\n", flags=["-I"])
        self.run_python("print('fine')\n", flags=["-S"])
        self.assertEqual(self.dumps(), {})

    @unittest.skipIf(sys.version_info < (3, 10), "zipimport of Python 3.9 has another interface")
    def test_a_torch_in_a_zip_file(self):
        import zipfile

        with zipfile.ZipFile(os.path.join(self.root, "app.zip"), "w") as file:
            file.writestr("torch.py", TORCH)
            file.writestr("other.py", "")
        text = "import sys\nsys.path.insert(0, %r)\nimport other, torch\ntorch.cuda._lazy_init()\n"
        self.run_python(text % os.path.join(self.root, "app.zip"))
        self.assertIn("snapshot", self.calls)

    def test_a_torch_without_cuda(self):
        self.write("user/torch.py", "import types\n_C = types.SimpleNamespace()\n__version__ = '2.11.0+cpu'\n")
        self.run_python("import torch\n")
        self.assertEqual(self.dumps(), {})

    @unittest.skipUnless(os.geteuid() == 0, "only root makes a program of another user")
    def test_a_python_with_rights_of_others_is_not_hooked(self):
        nobody = 65534
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            shutil.copytree(FOLDER, os.path.join(folder, "hook"))
            program = shutil.copy(os.path.realpath(sys.executable), os.path.join(folder, "python"))
            variables = {"MEMREEL_RECORD": folder, "PYTHONPATH": os.path.join(folder, "hook"), "PYTHONHOME": sys.base_prefix}
            ask = [program, "-c", "import sys; print(hasattr(sys, '_memreel_record'))"]
            def asked(**how):
                return subprocess.run(ask, env={**os.environ, **variables}, capture_output=True, text=True, **how)

            plain = asked()
            self.assertEqual(plain.stdout, "True\n", plain.stderr)
            os.chmod(program, 0o4755)
            owned = asked(preexec_fn=lambda: os.setuid(nobody))
            self.assertEqual(owned.stdout, "False\n", owned.stderr)


if __name__ == "__main__":
    unittest.main()
