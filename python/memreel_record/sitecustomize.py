"""Runs at the start of each Python that `memreel record` starts, and steps aside.

Python imports the first `sitecustomize` on its path, and `memreel record` puts this folder in front of it. So this
file imports the user's, if there is one, as if this folder were not there. If PyTorch is to be recorded, it leaves a
finder that waits for `import torch`; a program without PyTorch loads nothing else of ours.

Any Python from 2.7 on may read this file. After an error in it, nothing of it is left.
"""

import os as _os
import sys as _sys


def _arm(folder):
    """Waits for torch, or hooks it if a .pth file has imported it already."""

    def load():
        # By its path: the folder is not on sys.path any more.
        from importlib import util

        spec = util.spec_from_file_location("_memreel_torch", _os.path.join(folder, "_memreel_torch.py"))
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def hook(torch):
        try:
            load().install(torch)
        except Exception as error:  # The program must not notice.
            try:
                _sys.stderr.write("memreel: PyTorch's blocks are not recorded: %r\n" % (error,))
            except Exception:
                pass

    class TorchFinder:
        """Finds torch as the finders behind it do, and hooks it when its import has succeeded."""

        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name != "torch":
                return None
            for finder in list(_sys.meta_path):
                find = getattr(finder, "find_spec", None)
                if finder is cls or find is None:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    try:
                        cls.watch(spec.loader)
                    except Exception:  # A loader that cannot be watched loads torch without us.
                        cls.leave()
                    return spec
            return None

        @classmethod
        def watch(cls, loader):
            # A class loads many modules, and a module of ours is left from an import that failed.
            if isinstance(loader, type) or not hasattr(loader, "exec_module"):
                return
            getattr(loader, "__dict__", {}).pop("exec_module", None)
            execute = loader.exec_module

            def exec_module(module):
                # A loader of a zip file loads other modules too.
                if getattr(module, "__name__", None) != "torch":
                    return execute(module)
                loader.__dict__.pop("exec_module", None)
                execute(module)
                if cls.leave():
                    hook(module)

            loader.exec_module = exec_module

        @classmethod
        def leave(cls):
            """Leaves the list of finders; returns whether it was there."""
            is_there = cls in _sys.meta_path
            if is_there:
                _sys.meta_path.remove(cls)
            return is_there

    if "torch" in _sys.modules:
        hook(_sys.modules["torch"])
        return
    # Every import runs this: what traces a program or counts its lines passes over code of no file.
    find = TorchFinder.find_spec.__func__
    find.__code__ = find.__code__.replace(co_filename="<memreel>")
    # The last step: an error before it leaves nothing.
    _sys.meta_path.insert(0, TorchFinder)


def _check_frames():
    """Compares Python frames, as the preloaded library reads them, with the interpreter's own: where they differ, none are
    recorded."""
    kinds = [item.strip() for item in _os.environ.get("MEMREEL", "").split(",")]
    if "libmemreel_preload" not in _os.environ.get("LD_PRELOAD", "") or {"stacks=native", "stacks=none"} & set(kinds):
        return
    import ctypes

    # PyDLL keeps the interpreter's lock during the call.
    ctypes.PyDLL(None).memreel_preload_check_python()


def _chain(folder):
    """Imports the user's sitecustomize. Without one, the import fails as it does without this folder."""

    def is_ours(entry):
        try:
            return _os.path.realpath(entry or ".") == folder
        except Exception:
            return False

    _sys.path[:] = [entry for entry in _sys.path if not is_ours(entry)]
    # Kept while its code runs: Python 2 clears the variables of a module that is gone.
    own = _sys.modules.pop("sitecustomize", None)
    __import__("sitecustomize")
    del own


def _has_rights_of_others():
    """Whether this program has more rights than its caller, whose environment it is: setuid, setgid, the file's capabilities."""
    at_secure = 23
    try:
        with open("/proc/self/auxv", "rb") as table:
            words = memoryview(table.read()).cast("L")
        return any(key == at_secure and value for key, value in zip(words[::2], words[1::2]))
    except Exception:
        return _os.getuid() != _os.geteuid() or _os.getgid() != _os.getegid()


_folder = _os.path.dirname(_os.path.realpath(__file__))
if _os.environ.get("MEMREEL_RECORD") and not getattr(_sys, "_memreel_record", False) and not _has_rights_of_others():
    _sys._memreel_record = True
    try:
        # No PyTorch with a history runs on an older one.
        if _sys.version_info >= (3, 8) and _os.environ.get("MEMREEL_TORCH") != "0":
            _arm(_folder)
        _check_frames()
    except Exception:
        pass
_chain(_folder)
