//! The owners that are known by the prefixes of their library, function and package names.

/// An owner with several names.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: &'static str,
    /// The prefixes of its library names, without `lib`.
    libraries: &'static [&'static str],
    /// The prefixes of its function names, for files that do not name libraries.
    functions: &'static [&'static str],
    /// Its Python packages.
    packages: &'static [&'static str],
}

/// Returns an owner whose libraries and functions share one name.
const fn plain(libraries: &'static [&'static str; 1]) -> Owner {
    Owner { name: libraries[0], libraries, functions: libraries, packages: &[] }
}

#[rustfmt::skip]
const OWNERS: [Owner; 12] = [
    // `pncclXxx` is NCCL's alternative name of a function.
    Owner { name: "nccl", libraries: &["nccl"], functions: &["nccl", "pnccl"], packages: &[] },
    plain(&["cublas"]),
    plain(&["cudnn"]),
    plain(&["cufft"]),
    plain(&["cusolver"]),
    plain(&["cusparse"]),
    plain(&["curand"]),
    plain(&["nvrtc"]),
    Owner { name: "pytorch", libraries: &["c10", "torch", "_C.cpython-", "caffe2"],
        functions: &["c10::", "at::", "torch::", "c10d::", "c10_npu::", "at_npu::", "torch_npu::", "torch_mlu::"],
        packages: &["torch", "functorch", "torchgen", "torch_npu", "torch_mlu"] },
    Owner { name: "triton", libraries: &["triton"], functions: &["triton::", "mlir::triton"], packages: &["triton"] },
    Owner { name: "jax", libraries: &["jax", "_jax", "xla", "pjrt"],
        functions: &["xla::", "tsl::", "jax::", "jaxlib::", "pjrt::", "stream_executor::"],
        packages: &["jax", "jaxlib", "jax_plugins"] },
    Owner { name: "cupy", libraries: &["cupy"], functions: &[], packages: &["cupy", "cupyx", "cupy_backends"] },
];

/// Parts of CuPy's function names: Cython includes the module names.
const CUPY: [&str; 2] = ["4cupy_", "cupy_backends"];

/// The prefixes of an interpreter's file names: its frames stand for the code that it runs.
pub(super) const INTERPRETER: &[&str] = &["python", "libpython", "pypy", "libpypy", "libffi", "_ctypes."];

/// The prefixes of system library names.
pub(super) const SYSTEM: &[&str] = &["libc.", "libc-", "ld-", "libpthread", "libstdc++"];

/// The prefixes of the CUDA libraries that pass requests on to the driver, and of the driver's own.
pub(super) const RUNTIME_OF_CUDA: &[&str] = &["libcuda.so", "libcuda-", "libcudart", "libnvidia-"];

/// The prefixes of functions that pass requests on to the driver. A runtime that is linked statically is in the
/// program's own file, and its inner functions are called `libcudart_static_` and 40 digits.
#[rustfmt::skip]
pub(super) const FUNCTIONS_OF_CUDA: &[&str] = &[
    "libcudart_static_", "cudaMalloc", "cudaHost", "cudaMem", "cudaFree", "cudaGraph", "cudaIpc", "cudaSetDevice", "cudaDevice",
    "cudaStream", "cudaLaunch", "cuMem", "cuArray", "cuMipmapped", "cuIpc", "cuMulticast", "cuModule", "cuLibrary", "cuGraph",
    "cuDevicePrimaryCtx", "cuCtx", "cuLaunch",
];

/// The prefixes of further libraries that pass requests on: memreel, language runtimes, the loader, and host
/// allocators.
#[rustfmt::skip]
const PASSING: &[&str] = &[
    "libmemreel", "libm.so", "libm-", "ld.so", "libdl.so", "libdl-",
    "librt.so", "librt-", "libc++", "libgcc_s", "libgomp", "libunwind", "linux-vdso", "linux-gate", "libjemalloc",
    "libtcmalloc", "libmimalloc", "libasan",
];

/// The prefixes of functions that pass requests on, in files that do not name libraries.
#[rustfmt::skip]
const RUNTIMES: &[&str] = &[
    "std::", "core::", "alloc::", "memreel::", "operator new", "__", "_start", "start_thread", "clone", "Py", "_Py", "0x", "??",
    "libcudart_static_",
];

/// Returns whether a library passes requests on.
pub(super) fn is_passing(library: &str) -> bool {
    [PASSING, RUNTIME_OF_CUDA, SYSTEM, INTERPRETER]
        .into_iter()
        .flatten()
        .any(|start| library.starts_with(start))
}

/// Returns whether a function belongs to the driver, CUDA's runtime or a language runtime, in a file that names no
/// libraries.
pub(super) fn is_of_runtime(function: &str) -> bool {
    let of_cuda = function.strip_prefix("cuda").or_else(|| function.strip_prefix("cu"));
    let is_of_cuda = of_cuda.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    let is_begun = || RUNTIMES.iter().any(|start| function.starts_with(start));
    is_of_cuda || function.is_empty() || function == "main" || is_begun()
}

/// Returns the owner of a library, given without `lib`.
pub(super) fn of_library(bare: &str) -> Option<&'static str> {
    named(|owner| owner.libraries.iter().any(|start| bare.starts_with(start)))
}

/// Returns the owner of a function in a file that does not name libraries.
pub(super) fn of_function(name: &str) -> Option<&'static str> {
    // `nccl` belongs to NCCL in `ncclCommInitRank`, but not in `nccl_test`.
    let is_theirs = |start: &&str| {
        let rest = name.strip_prefix(*start);
        rest.is_some_and(|rest| {
            start.ends_with(':') || !rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        })
    };
    named(|owner| owner.functions.iter().any(is_theirs)).or_else(|| of_module(name))
}

/// Returns the owner of a function of Cython.
pub(super) fn of_module(function: &str) -> Option<&'static str> {
    CUPY.iter().any(|part| function.contains(part)).then_some("cupy")
}

/// Returns the owner of a Python package; most packages are their own.
pub(super) fn of_package(package: &str) -> &str {
    named(|owner| owner.packages.contains(&package)).unwrap_or(package)
}

/// Returns whether a Python package is one of a known owner.
pub(super) fn is_known_package(package: &str) -> bool {
    OWNERS.iter().any(|owner| owner.packages.contains(&package))
}

fn named(is: impl Fn(&Owner) -> bool) -> Option<&'static str> {
    OWNERS.iter().find(|owner| is(owner)).map(|owner| owner.name)
}
