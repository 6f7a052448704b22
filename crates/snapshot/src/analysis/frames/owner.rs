//! Finds the owner of a stack: the library or the program that requested the memory.

use super::{
    known_owners::{is_of_runtime, is_passing, of_function, of_library, of_module, of_package},
    role::{is_python, library_without_names},
};
use crate::{
    model::{Frame, FrameIndex, Snapshot, StackIndex, StackTable, Text},
    words::{SeededMap, paths::with_slashes},
};

/// The owner of memory that no library requested: the program's own code.
pub const PROGRAM: &str = "program";

/// The owner of memory without a stack.
pub const UNKNOWN: &str = "unknown";

/// The owner of managed memory, which may be on the host and counts in no sum of a device.
pub const MANAGED: &str = "memory:managed";

/// The owner of memory that another process exports; it counts there.
pub const IMPORTED: &str = "memory:imported";

/// The owner of this process's memory that is mapped again; it counts where it was mapped first.
pub const ALIAS: &str = "memory:alias";

/// The purpose of a request that the driver refused because too many addresses are reserved.
pub(crate) const ADDRESSES: &str = "memory:addresses";

/// The prefix of the driver's own memory.
const DRIVER: &str = "driver:";

/// The prefix of other kinds of memory.
const MEMORY: &str = "memory:";

/// Folders of installed Python packages.
pub(crate) const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// What a frame shows about the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Says {
    /// The first frame of a segment that no library requested: `driver:context`.
    Mark(Text),
    /// Compiled code of this owner.
    Owner(Text),
    /// A Python module in compiled code, without a better name than its file's.
    Module(Text),
    /// Compiled code of the program, or of an unknown library in a file that does not name libraries.
    Program,
    /// Code of a Python package.
    Package(Text),
    /// Python code of the program.
    Script,
    /// A frame that passes a request on.
    Nothing,
}

/// The owners of the stacks of one snapshot: the library or the program that requested the memory. Each frame and each
/// stack is judged once.
///
/// ```
/// use memreel::{Snapshot, analysis::{Owners, UNKNOWN}};
///
/// let snapshot = Snapshot::default();
/// assert_eq!(&*Owners::new(&snapshot).of(None), UNKNOWN);
/// ```
#[derive(Debug)]
pub struct Owners<'a> {
    snapshot: &'a Snapshot,
    /// Of frames that were judged: each of many devices has few of a snapshot's.
    frames: SeededMap<FrameIndex, Says>,
    stacks: SeededMap<StackIndex, Text>,
    unknown: Text,
    program: Text,
}

impl<'a> Owners<'a> {
    /// Takes a snapshot; judges nothing yet.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Owners<'a> {
        let (unknown, program) = (UNKNOWN.into(), PROGRAM.into());
        Owners { snapshot, frames: SeededMap::default(), stacks: SeededMap::default(), unknown, program }
    }

    /// Returns whether the stacks of a snapshot can name owners: one of them has a compiled frame. A file that PyTorch
    /// wrote with Python's frames alone names the caller of PyTorch at most, whose allocator has all of the memory.
    #[must_use]
    pub fn are_known(snapshot: &Snapshot) -> bool {
        snapshot.stacks.all_frames().any(|frame| !is_python(frame))
    }

    /// Returns the owner of memory that was asked for by a stack; [`UNKNOWN`] without a stack.
    pub fn of(&mut self, stack: Option<StackIndex>) -> Text {
        let Some(stack) = stack.filter(|stack| *stack != StackTable::EMPTY) else {
            return self.unknown.clone();
        };
        if let Some(known) = self.stacks.get(&stack) {
            return known.clone();
        }
        let owner = self.judge(stack);
        self.stacks.insert(stack, owner.clone());
        owner
    }

    /// Compiled code decides before Python, whose frames may come before all compiled ones.
    fn judge(&mut self, stack: StackIndex) -> Text {
        let members = self.snapshot.stacks.members(stack);
        let (mut module, mut python) = (None, None);
        let mut is_of_program = false;
        for (nth, frame) in members.iter().enumerate() {
            match self.says(*frame) {
                Says::Mark(mark) if nth == 0 => return mark.clone(),
                Says::Owner(owner) if module.is_none() => return owner.clone(),
                Says::Module(name) if module.is_none() => module = Some(name.clone()),
                Says::Package(name) if python.is_none() => python = Some(name.clone()),
                Says::Script if python.is_none() => python = Some(self.program.clone()),
                Says::Program => is_of_program = true,
                _ => {}
            }
            // A program in one file decides, as a library does; without names of libraries a later frame may be one's.
            if is_of_program && self.names_library(*frame) {
                break;
            }
        }
        let package = python.clone().filter(|owner| *owner != self.program);
        match module {
            Some(module) => package.unwrap_or(module),
            None if is_of_program => self.program.clone(),
            None => python.unwrap_or_else(|| self.program.clone()),
        }
    }

    fn names_library(&self, frame: FrameIndex) -> bool {
        self.snapshot.library(self.snapshot.stacks.frame(frame)).is_some()
    }

    fn says(&mut self, frame: FrameIndex) -> &Says {
        let snapshot = self.snapshot;
        self.frames.entry(frame).or_insert_with(|| {
            let frame = snapshot.stacks.frame(frame);
            says(frame, snapshot.library(frame))
        })
    }
}

/// Returns whether a frame of Python is in a file of the program's own, and not of a package or of the standard library.
#[must_use]
pub fn is_own(frame: &Frame) -> bool {
    is_python(frame) && matches!(in_python(&frame.filename), Says::Script)
}

/// Returns whether memory of this owner is the driver's own.
pub(crate) fn is_of_driver(owner: &str) -> bool {
    owner.starts_with(DRIVER)
}

/// Returns whether a frame names a kind of memory and not a function: `driver:context`, `memory:managed`.
pub(crate) fn is_mark(frame: &Frame) -> bool {
    let kind = frame.name.strip_prefix(DRIVER).or_else(|| frame.name.strip_prefix(MEMORY));
    let is_word = |kind: &str| {
        !kind.is_empty() && kind.bytes().all(|c| c.is_ascii_lowercase() || c == b'-' || c == b'_')
    };
    matches!(&*frame.filename, "" | "??") && kind.is_some_and(is_word)
}

/// Finds the stacks of memory that is mapped again; `None` in a file without such memory.
pub(crate) fn aliases(snapshot: &Snapshot) -> Option<impl Fn(StackIndex) -> bool> {
    let stacks = &snapshot.stacks;
    let is_mark = |frame: &Frame| *frame.name == *ALIAS && is_mark(frame);
    stacks.all_frames().any(is_mark).then_some(move |stack| stacks.frames(stack).next().is_some_and(is_mark))
}

fn says(frame: &Frame, library: Option<&str>) -> Says {
    if let Some(library) = library {
        return in_library(library, &frame.name);
    }
    if is_mark(frame) {
        return Says::Mark(frame.name.clone());
    }
    if let Some(library) = library_without_names(&frame.name) {
        return in_library(library, &frame.name);
    }
    if is_python(frame) {
        return in_python(&frame.filename);
    }
    match of_function(&frame.name) {
        Some(owner) => Says::Owner(owner.into()),
        None if is_of_runtime(&frame.name) => Says::Nothing,
        None => Says::Program,
    }
}

/// Returns what a frame shows that is in a library, or in the program in a file that has this name.
fn in_library(library: &str, function: &str) -> Says {
    if is_passing(library) {
        return Says::Nothing;
    }
    let bare = library.strip_prefix("lib").unwrap_or(library);
    if let Some(owner) = of_library(bare) {
        return Says::Owner(owner.into());
    }
    let is_module = [".cpython-", ".abi3."].iter().any(|part| library.contains(part));
    let stem = match bare.split_once(if is_module { "." } else { ".so" }) {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => return Says::Program,
    };
    match of_module(function) {
        Some(owner) => Says::Owner(owner.into()),
        None if is_module => Says::Module(stem.into()),
        None => Says::Owner(stem.into()),
    }
}

fn in_python(filename: &str) -> Says {
    let filename = &*with_slashes(filename);
    let installed = INSTALLED.iter().find_map(|folder| Some(filename.rsplit_once(folder)?.1));
    if let Some(path) = installed {
        // NVIDIA's packages share a folder: `nvidia/nccl`.
        let name = path.strip_prefix("nvidia/").unwrap_or(path);
        let name = name.split('/').next().unwrap_or(name);
        return Says::Package(of_package(name.strip_suffix(".py").unwrap_or(name)).into());
    }
    // Code without a file passes requests on, as the standard library does.
    if filename.starts_with('<') || is_standard_library(filename) { Says::Nothing } else { Says::Script }
}

/// Returns whether a path with slashes belongs to the standard library: `/usr/lib/python3.12/ctypes/__init__.py`, or
/// `C:/Python312/Lib/ctypes/__init__.py`.
pub(super) fn is_standard_library(filename: &str) -> bool {
    let on_windows = |before: &str| {
        let folder = before.rsplit('/').next().unwrap_or_default();
        folder.get(..6).is_some_and(|name| name.eq_ignore_ascii_case("python"))
    };
    filename.contains("/lib/python3")
        || filename.split_once("/Lib/").is_some_and(|(before, _)| on_windows(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, Shape, Slot, Value};

    /// Returns the owner of a stack of frames, innermost first, given as names with files; `lib!name` includes the
    /// library.
    fn owner(frames: &[(&str, &str)]) -> String {
        let mut snapshot = Snapshot::default();
        let mut members = Vec::new();
        for (name, filename) in frames {
            let fields = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
            let mut shape = Shape::from_fields(&fields);
            let (library, name) =
                name.split_once('!').map_or((None, *name), |(library, name)| (Some(library), name));
            shape.slots.extend(library.map(|name| ("library".into(), Slot::Value(Value::text(name)))));
            let shape = snapshot.shapes.intern(shape);
            let frame = Frame { name: name.into(), filename: (*filename).into(), line: 1, shape };
            members.push(snapshot.stacks.intern_frame(frame));
        }
        let stack = snapshot.stacks.intern_stack(&members);
        Owners::new(&snapshot).of(Some(stack)).to_string()
    }

    #[test]
    fn the_first_library_that_asks_is_the_owner() {
        let of = |libraries: &[&str]| {
            let names: Vec<String> = libraries.iter().map(|library| format!("{library}!f")).collect();
            owner(&names.iter().map(|name| (&**name, "??")).collect::<Vec<_>>())
        };
        for (libraries, expected) in [
            (&["libcuda.so.1", "libnccl.so.2", "libtorch_cuda.so", "python3.12"][..], "nccl"),
            (&["libcudart.so.12", "libc10_cuda.so", "libtorch_cpu.so"], "pytorch"),
            (
                &["libcudart-d0da41ae.so.11.0", "libcublasLt.so.12", "libcublas.so.12", "libtorch_cuda.so"],
                "cublas",
            ),
            (&["libmemreel_preload.so", "libcudnn_engines_precompiled.so.9", "libtorch_cuda.so"], "cudnn"),
            (&["libc.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2", "libcufft.so.11", "train"], "cufft"),
            (&["libcuda.so.1", "xla_cuda_plugin.so", "python3.12"], "jax"),
            (&["libcuda.so.1", "pjrt_c_api_gpu_plugin.so"], "jax"),
            (&["libcuda.so.1", "libjax_common.so"], "jax"),
            (&["libcuda.so.1", "libtriton.so"], "triton"),
            (&["libcuda.so.1", "libcusolverMg.so.11"], "cusolver"),
            (&["libcuda.so.1", "libcusparse.so.12"], "cusparse"),
            (&["libcuda.so.1", "libcurand.so.10"], "curand"),
            (&["libcuda.so.1", "libnvrtc.so.12"], "nvrtc"),
            (&["libcuda.so.1", "_C.cpython-312-x86_64-linux-gnu.so"], "pytorch"),
            (&["libcuda.so.1", "libnvidia-ptxjitcompiler.so.1", "libvendor-1.2.so.7", "train"], "vendor-1.2"),
            (&["libcuda.so.1", "train", "libc.so.6"], "program"),
            (&["libcuda.so.1", "libc.so.6"], "program"),
            (&["libcuda.so.1", "engine.cpython-312-x86_64-linux-gnu.so", "python3.12"], "engine"),
        ] {
            assert_eq!(of(libraries), expected, "{libraries:?}");
        }
    }

    #[test]
    fn marks_decide_where_they_are_the_first() {
        assert_eq!(owner(&[("driver:context", "??"), ("libtorch_cuda.so!f", "??")]), "driver:context");
        assert_eq!(owner(&[("memory:managed", "??"), ("train!f", "??")]), "memory:managed");
        assert_eq!(owner(&[("driver::Pool::grow", "??"), ("libnccl.so.2!f", "??")]), "nccl");
        assert_eq!(owner(&[("libnccl.so.2!driver:context", "??")]), "nccl", "a function of a library");
        assert_eq!(owner(&[("train!f", "??"), ("driver:context", "??")]), "program");
        assert_eq!(owner(&[("driver:context", "/a/b.py")]), "program");
        assert_eq!(owner(&[]), "unknown");
    }

    #[test]
    fn functions_decide_where_libraries_are_not_named() {
        for (name, expected) in [
            ("ncclCommInitRank", "nccl"),
            ("pncclAllReduce(void const*)", "nccl"),
            ("nccl_test", "program"),
            ("ncclient_start", "program"),
            ("cublasCreate_v2", "cublas"),
            ("cudnnCreate", "cudnn"),
            ("c10::cuda::CUDACachingAllocator::Native::malloc", "pytorch"),
            ("at::native::empty_cuda", "pytorch"),
            ("c10_npu::NPUCachingAllocator::malloc", "pytorch"),
            ("atlas::Layer::grow()", "program"),
            ("__pyx_f_4cupy_4cuda_6memory_alloc", "cupy"),
            ("xla::BFCAllocator::Extend", "jax"),
            ("tsl::BFCAllocator::Extend", "jax"),
            ("libnccl.so.2+0x1234", "nccl"),
            ("cudaMalloc", "program"),
            ("cuMemAlloc_v2", "program"),
            ("custom_grow", "program"),
            ("libcudart_static_8b3fb4b4e2f8be7e23f33b3f2d8b8f0a6f0a1b2c", "program"),
            ("main", "program"),
        ] {
            assert_eq!(owner(&[(name, "??"), ("main", "??")]), expected, "{name}");
            let deeper =
                owner(&[("cudaMalloc", "??"), ("std::function<void ()>::operator()", "??"), (name, "??")]);
            assert_eq!(deeper, expected, "{name}, further out");
        }
    }

    #[test]
    fn packages_decide_where_only_python_is_seen() {
        let torch = "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        for (filename, expected) in [
            (torch, "pytorch"),
            ("/opt/venv/lib/python3.12/site-packages/cupy/_creation/basic.py", "cupy"),
            ("/a/dist-packages/jaxlib/xla_client.py", "jax"),
            ("/a/site-packages/nvidia/nccl/__init__.py", "nccl"),
            ("/a/site-packages/numba/cuda/cudadrv/driver.py", "numba"),
            ("/a/site-packages/single.py", "single"),
            (r"C:\env\Lib\site-packages\torch\nn\modules\module.py", "pytorch"),
            (r"C:\env\Lib\site-packages\nvidia\nccl\__init__.py", "nccl"),
            ("/home/me/torch/train.py", "program"),
            (r"D:\torch\Lib\train.py", "program"),
            ("<stdin>", "program"),
        ] {
            assert_eq!(owner(&[("f", filename), ("main", "/home/me/train.py")]), expected, "{filename}");
        }
        assert_eq!(owner(&[("f", "/home/me/train.py"), ("g", torch)]), "program");
        for standard in ["/usr/lib/python3.12/ctypes/__init__.py", r"C:\Python312\Lib\ctypes\__init__.py"] {
            assert_eq!(owner(&[("f", standard), ("g", torch)]), "pytorch", "{standard}");
        }
        let ctypes =
            [("libffi.so.8!ffi_call", "??"), ("_ctypes.cpython-312.so!f", "??"), ("python3.12!f", "??")];
        let numba = [("f", "/a/site-packages/numba/cuda.py"), ("python3.12!main", "??")];
        assert_eq!(owner(&[&ctypes[..], &numba].concat()), "numba");
        let cython = "runtime.cpython-312-x86_64-linux-gnu.so!f";
        assert_eq!(
            owner(&[(cython, "??"), ("f", "/a/site-packages/cupy/x.py"), ("python3!m", "??")]),
            "cupy"
        );
        assert_eq!(owner(&[("f", torch), ("libnccl.so.2!f", "??")]), "nccl", "compiled code comes first");
    }
}
