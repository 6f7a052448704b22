//! The table of rules that gives compiled frames their roles.

use super::known_owners::{FUNCTIONS_OF_CUDA, INTERPRETER, RUNTIME_OF_CUDA, SYSTEM};

/// How well a frame identifies the code that allocated, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Role {
    /// Of a recorder, or at the beginning of a program or a thread.
    Runtime,
    /// Of Python's interpreter.
    Interpreter,
    /// Of an allocator.
    Allocator,
    /// Passes calls on: operators, how they are dispatched, and the standard libraries.
    Dispatch,
    /// The `main` of a program without line tables, or the one that starts a program's own.
    Entry,
    /// Of a library without symbols.
    Unnamed,
    /// Other compiled code.
    Native,
    /// Python code.
    Python,
    /// Makes a workspace of a library, which it keeps: the code that happens to be the first to need it is only
    /// its caller.
    Workspace,
}

use Role::{Allocator, Dispatch, Entry, Interpreter, Native, Runtime, Unnamed, Workspace};

/// The part of a frame that a rule compares with its texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compared {
    /// The function's name contains the text.
    Name,
    /// The function's name begins with the text.
    Begin,
    /// The function's name is the text.
    Whole,
    /// The function's name is the text, and its source file is not known.
    Bare,
    /// The function has no name, and the name of its library begins with the text.
    Library,
    /// The path of the source file contains the text.
    Folder,
    /// The path of the source file ends with the text.
    File,
}

use Compared::{Bare, Begin, File, Folder, Library, Name, Whole};

/// A rule: the role of the frames with one of these texts in this part.
#[derive(Debug)]
pub(super) struct Rule(pub(super) Role, pub(super) Compared, pub(super) &'static [&'static str]);

/// Parts of the names of functions that request a workspace which its library keeps.
pub(super) const KEPT_WORKSPACES: &[&str] = &["setWorkspaceForHandle", "getNewWorkspace", "BlasLtWorkspace"];

/// The rules for compiled code; the first that fits decides.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    // Recorders: PyTorch's, and walks of stacks.
    Rule(Runtime, Name, &["unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp"]),
    Rule(Runtime, Begin, &["_Unwind_", "backtrace::"]),
    // Libraries without symbols: the interpreter's and the system's, PyTorch's, and others.
    Rule(Interpreter, Library, INTERPRETER),
    Rule(Runtime, Library, SYSTEM),
    Rule(Allocator, Library, RUNTIME_OF_CUDA),
    Rule(Dispatch, Library, &["libtorch", "libc10"]),
    Rule(Unnamed, Library, &[""]),
    Rule(Unnamed, Begin, &["0x"]),
    // Python's interpreter.
    Rule(Interpreter, Begin, &["Py_", "PyEval_", "_PyEval_", "PyObject_", "_PyObject_", "PyFunction_", "_PyFunction_",
        "PyRun_", "_PyRun_", "PyVectorcall_", "_PyVectorcall_", "PyCFunction_", "PyCMethod_", "PyMethod_", "_PyMethod",
        "PyImport_", "PyIter_", "PyNumber_", "PyType_", "pymain_", "cfunction_", "method_vectorcall", "slot_tp_", "__Pyx_", "ffi_call"]),
    Rule(Interpreter, Bare, &["type_call", "object_vacall", "builtin_exec", "run_mod", "pyrun_file"]),
    Rule(Interpreter, File, &["Python/ceval.c", "pycore_ceval.h", "Python/pythonrun.c", "Modules/main.c", "Programs/python.c",
        "Objects/call.c", "Objects/methodobject.c", "Objects/descrobject.c", "cpython/abstract.h"]),
    Rule(Interpreter, Folder, &["/Modules/_ctypes/"]),
    // The beginnings of programs and threads, and frames without a name.
    Rule(Runtime, Begin, &["__libc_", "pthread_", "??"]),
    Rule(Runtime, Whole, &["", "_start", "start_thread", "__clone", "clone3", "__clone3", "__GI___clone3"]),
    Rule(Runtime, Bare, &["clone", "thread_start"]),
    // Allocators: PyTorch's and its plugins', CuPy's, RMM's, the driver's, and those of languages.
    Rule(Allocator, Name, &["CachingAllocator", "PluggableAllocator", "CachingHostAllocator", "4cupy_4cuda_6memory_"]),
    Rule(Allocator, Begin, &["at::detail::empty_", "memreel::", "memreel_", "rmm::", "__rust_alloc", "__rust_realloc", "__rust_dealloc", "__rustc::__rust_", "__rdl_"]),
    Rule(Allocator, Begin, FUNCTIONS_OF_CUDA),
    Rule(Allocator, Whole, &["operator new", "operator new[]"]),
    Rule(Allocator, Bare, &["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"]),
    // The parts of PyTorch that allocate for themselves, such as workspaces of matrix products (cuBLAS).
    Rule(Workspace, Name, KEPT_WORKSPACES),
    Rule(Native, Begin, &["at::cuda::", "at::hip::", "at::xpu::"]),
    // Operators: PyTorch's, their dispatch and differentiation, and those of CuPy's arrays.
    Rule(Dispatch, Begin, &["at::", "c10::", "at_npu::", "c10_npu::", "torch_mlu::", "torch::ADInplaceOrView::", "torch::TraceType::",
        "torch::autograd::VariableType::", "torch::autograd::Engine::", "torch::autograd::Node::",
        "torch::autograd::python::", "torch::autograd::autogradNotImplemented", "torch::autograd::validate_outputs",
        "torch::autograd::InputMetadata::", "torch::autograd::InputBuffer::", "torch::autograd::dispatch_to",
        "torch::empty", "torch::zeros", "torch::ones", "torch::full", "torch::rand", "torch::arange"]),
    Rule(Dispatch, Name, &["4cupy_5_core_"]),
    // The standard libraries of Rust and C++. Line tables may leave only the last part of a name.
    Rule(Dispatch, Folder, &["/library/core/src/", "/library/std/src/", "/library/alloc/src/", "/library/test/src/",
        "/rust/deps/", "/include/c++/"]),
    Rule(Dispatch, Name, &["__rust_begin_short_backtrace", "__rust_end_short_backtrace"]),
    Rule(Dispatch, Begin, &["std::", "__gnu_cxx::", "core::ops::", "core::iter::", "core::panic", "core::ptr::",
        "core::option::", "core::result::", "core::slice::", "core::mem::", "core::cell::", "core::array::",
        "alloc::boxed::", "alloc::vec::", "alloc::raw_vec::", "alloc::slice::", "alloc::rc::", "alloc::sync::",
        "alloc::collections::", "alloc::string::", "__rust_try", "execute_native_thread_routine"]),
    Rule(Entry, Bare, &["main"]),
];

/// The rules, as a set of bits, that need frames without a source file.
pub(super) const BARE_RULES: u64 = {
    let (mut bits, mut number) = (0, 0);
    while number < RULES.len() {
        if matches!(RULES[number].1, Bare) {
            bits |= 1 << number;
        }
        number += 1;
    }
    bits
};
