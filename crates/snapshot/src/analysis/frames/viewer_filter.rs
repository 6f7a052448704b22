//! The frames that PyTorch's viewer and tool show (`docs/snapshot-format.md` 3.4).

use crate::words::paths::with_slashes;

/// Parts of function names of the interpreter and of PyTorch's recorder.
const HIDDEN_NAMES: [&str; 8] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_start",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
];

/// Parts of their source file paths.
const HIDDEN_FILES: [&str; 10] = [
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
];

/// Returns whether viewers and PyTorch's tool show a frame.
///
/// Parts of texts decide: a function with the name `warm_start` is hidden too.
#[must_use]
pub fn is_shown(name: &str, filename: &str) -> bool {
    let filename = with_slashes(filename);
    !HIDDEN_NAMES.iter().any(|part| name.contains(part))
        && !HIDDEN_FILES.iter().any(|part| filename.contains(part))
}
