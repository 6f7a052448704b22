//! Counts the frames at the top of a stack that are memreel's own.
#![forbid(unsafe_code)]

use std::{
    ffi::OsStr,
    path::{Component, Path},
};

use super::symbol::Symbol;

/// The folders of the packages that call the recorder, next to the folder of memreel's own sources.
const PACKAGES: [&str; 3] = ["crates/capi", "crates/hooks/cuda", "crates/hooks/malloc"];

/// The prefixes of memreel's own library file names.
const LIBRARIES: [&str; 3] = ["libmemreel.so", "libmemreel_preload.so", "libmemreel_heap.so"];

/// Those of them that wrap functions of other libraries, which they call: their frames are between the program's.
const IN_FRONT: [&str; 2] = ["libmemreel_preload.so", "libmemreel_heap.so"];

/// Returns whether a frame is memreel's own wherever it is on a stack.
pub(super) fn is_in_front(library: Option<&str>) -> bool {
    library.is_some_and(|name| IN_FRONT.iter().any(|ours| name.starts_with(ours)))
}

/// The owner of a frame's code, as far as it matters for the top of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// memreel's walk of the stack.
    Walk,
    /// memreel's, or the standard library's on its behalf, such as the drop of a handle.
    Ours,
    /// The standard library's.
    Library,
    /// The program's.
    Program,
}

/// Counts the frames at the top that are memreel's own, given the origin and function name of each.
///
/// Frames above the walk are functions that it calls. The standard library may be between memreel's frames (a closure
/// handed to `Option::map`) and below them (the drop of a memreel handle). So the top ends with memreel's last frame
/// before the program's first, and with the `drop` that the program called.
pub(super) fn n_ours<'a>(frames: impl Iterator<Item = (Origin, &'a str)> + Clone) -> usize {
    let walk = frames.clone().position(|(origin, _)| origin == Origin::Walk);
    let n_walk = walk.map_or(0, |index| index + 1);
    let top = frames.clone().skip(n_walk).take_while(|(origin, _)| *origin != Origin::Program);
    let is_ours = |(_, (origin, _)): &(usize, (Origin, &str))| matches!(origin, Origin::Walk | Origin::Ours);
    let n = n_walk + top.enumerate().filter(is_ours).last().map_or(0, |(index, _)| index + 1);
    n + frames.skip(n).take_while(|(_, name)| n > 0 && *name == "core::mem::drop").count()
}

impl Origin {
    /// Returns the origin of a frame in a library. Without line tables, the names of frames in memreel's own libraries
    /// do not reveal them as memreel's: `cuMemAlloc_v2`, or the start of a thread in the standard library that is
    /// linked there.
    pub(super) fn within(self, library: Option<&str>) -> Origin {
        let is_ours = library.is_some_and(|name| LIBRARIES.iter().any(|ours| name.starts_with(ours)));
        if self != Origin::Walk && is_ours { Origin::Ours } else { self }
    }

    /// Returns the origin of a frame. `walker` is a source file in the folder of memreel's `stack`.
    ///
    /// The frame's file decides where it is known: with only line tables, compilers give functions their bare names,
    /// `forward` for `train::forward`.
    pub(super) fn of(frame: &Symbol, walker: &str) -> Origin {
        let file = (&*frame.filename != "??").then(|| Path::new(&*frame.filename));
        let walker = (walker != "??").then(|| Path::new(walker));
        if walker.is_some_and(|walker| Path::new(&*frame.filename).parent() == walker.parent()) {
            return Origin::Walk;
        }
        let is_library = match file {
            Some(_) => is_library_file(&frame.filename),
            None => is_of(&frame.name, &["core", "alloc", "std"]),
        };
        if is_library {
            return if frame.name.contains("memreel::") { Origin::Ours } else { Origin::Library };
        }
        let is_ours = match (file, walker) {
            // `stack` is a folder of memreel's sources; the C interface and the LD_PRELOAD libraries are in packages
            // below `crates`, next to them.
            (Some(file), Some(walker)) => walker.ancestors().nth(2).is_some_and(|src| {
                let is_in = |package: &str| file.starts_with(src.with_file_name(package).join("src"));
                file.starts_with(src) || PACKAGES.into_iter().any(is_in)
            }),
            _ => is_of(&frame.name, &["memreel", "backtrace"]),
        };
        if is_ours { Origin::Ours } else { Origin::Program }
    }
}

/// Returns whether a source file is the standard library's: `…/library/core/…`.
fn is_library_file(filename: &str) -> bool {
    let mut folders = Path::new(filename).components().map(Component::as_os_str);
    folders.any(|folder| folder == "library")
        && folders.next().is_some_and(|folder| ["core", "alloc", "std"].map(OsStr::new).contains(&folder))
}

/// Returns whether a function, or the type of a method, belongs to one of these crates.
///
/// A method of a program's trait on a memreel type, `<memreel::… as app::Layer>::forward`, is the program's.
fn is_of(name: &str, crates: &[&str]) -> bool {
    const OURS_AND_LIBRARIES: [&str; 5] = ["memreel::", "backtrace::", "core::", "alloc::", "std::"];
    if let Some((_, of_trait)) = name.strip_prefix('<').and_then(|inside| inside.split_once(" as "))
        && !OURS_AND_LIBRARIES.iter().any(|root| of_trait.starts_with(root))
    {
        return false;
    }
    let path =
        name.trim_start_matches(['<', '&', '*', '[']).trim_start_matches("mut ").trim_start_matches("const ");
    let path = path.trim_start_matches("dyn ");
    crates.iter().any(|root| path.strip_prefix(root).is_some_and(|rest| rest.starts_with("::")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_ours_by(frames: &[Symbol], walker: &str) -> usize {
        n_ours(frames.iter().map(|frame| (Origin::of(frame, walker), &*frame.name)))
    }

    fn n_ours_of(names: &[&str]) -> usize {
        let symbol = |name: &&str| Symbol { name: (*name).into(), filename: "??".into(), line: 0 };
        n_ours_by(&names.iter().map(symbol).collect::<Vec<_>>(), "??")
    }

    fn n_ours_in(frames: &[(&str, &str)]) -> usize {
        let symbol =
            |(name, file): &(&str, &str)| Symbol { name: (*name).into(), filename: (*file).into(), line: 1 };
        n_ours_by(&frames.iter().map(symbol).collect::<Vec<_>>(), "/memreel/src/stack/capture.rs")
    }

    #[test]
    fn bare_names_are_distinguished_by_their_files() {
        let walk = [
            ("trace", "/registry/backtrace-0.3/src/backtrace/libunwind.rs"),
            ("capture", "/memreel/src/stack/capture.rs"),
        ];
        let alloc = [
            ("alloc", "/memreel/src/allocator/mod.rs"),
            ("zeros<f32>", "/memreel/src/buffer/mod.rs"),
            ("forward", "/memreel/examples/train.rs"),
            ("apply<f32>", "/memreel/src/buffer/mod.rs"),
        ];
        assert_eq!(n_ours_in(&[&walk[..], &alloc].concat()), 4);
        let dropped = [
            ("{closure#0}", "/memreel/src/allocator/allocation.rs"),
            ("map<u32, ()>", "/rustc/123/library/core/src/option.rs"),
            ("drop", "/memreel/src/allocator/allocation.rs"),
            ("drop_slow<T, A>", "/rustc/123/library/alloc/src/rc.rs"),
            ("drop_in_place<memreel::buffer::Buffer<f32>>", "/rustc/123/library/core/src/ptr/mod.rs"),
            ("drop_in_place<train::Layer>", "/rustc/123/library/core/src/ptr/mod.rs"),
            ("backward", "/memreel/examples/train.rs"),
        ];
        assert_eq!(n_ours_in(&[&walk[..], &dropped].concat()), 7);
        let preloaded = [
            ("record", "/memreel/crates/hooks/cuda/src/calls.rs"),
            ("cuMemAlloc_v2", "/memreel/crates/hooks/cuda/src/plain.rs"),
            ("{closure#0}", "/memreel/crates/hooks/malloc/src/lib.rs"),
            ("cudaMalloc", "/memreel/crates/hooks/cudas/src/plain.rs"),
        ];
        assert_eq!(n_ours_in(&[&walk[..], &preloaded].concat()), 5, "the packages for LD_PRELOAD");
        let user =
            [("alloc", "/app/library/coreutils/alloc.rs"), ("zeros<f32>", "/memreel/src/buffer/mod.rs")];
        assert_eq!(n_ours_in(&[&walk[..], &user].concat()), 2);
    }

    #[test]
    fn frames_of_memreels_libraries_are_its_own_without_line_tables() {
        let symbol = Symbol { name: "cuMemAlloc_v2".into(), filename: "??".into(), line: 0 };
        let origin = |library| Origin::of(&symbol, "??").within(library);
        assert_eq!(origin(Some("libmemreel_preload.so")), Origin::Ours);
        assert_eq!(origin(Some("libmemreel_heap.so.0")), Origin::Ours);
        assert_eq!(origin(Some("libmemreel_user.so")), Origin::Program);
        assert_eq!(origin(Some("libcuda.so.1")), Origin::Program);
        assert_eq!(origin(None), Origin::Program);
    }

    /// The first `operator new[]` of a program has frames of memreel between libstdc++'s and its own.
    #[test]
    fn frames_of_libraries_in_front_are_memreels_everywhere() {
        let libraries = ["libmemreel_heap.so", "libmemreel_preload.so.0", "libmemreel.so", "libstdc++.so.6"];
        assert_eq!(libraries.map(|name| is_in_front(Some(name))), [true, true, false, false]);
        assert!(!is_in_front(None));
    }

    #[test]
    fn a_trait_of_the_program_is_the_programs_on_any_type() {
        let names = ["memreel::alloc", "<memreel::buffer::Buffer<f32> as app::Layer>::forward", "app::main"];
        assert_eq!(n_ours_of(&names), 1);
        let clone =
            ["memreel::alloc", "<memreel::buffer::Buffer<f32> as core::clone::Clone>::clone", "app::main"];
        assert_eq!(n_ours_of(&clone), 2);
    }

    #[test]
    fn the_top_ends_where_the_program_begins() {
        let alloc =
            ["backtrace::trace", "memreel::stack::capture", "memreel::alloc", "train::forward", "memreel::x"];
        assert_eq!(n_ours_of(&alloc), 3, "memreel's later frames stay");
        let closure = ["memreel::a::{{closure}}", "core::option::Option<T>::map", "memreel::b", "app::main"];
        assert_eq!(n_ours_of(&closure), 3);
        let dropped = [
            "<memreel::allocator::Allocation as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<memreel::allocator::Allocation>",
            "<alloc::rc::Rc<T,A> as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<memreel::buffer::Buffer<f32>>",
            "core::ptr::drop_in_place<train::Layer>",
            "train::backward",
        ];
        assert_eq!(n_ours_of(&dropped), 4, "the drop of the program's own type stays");
        assert_eq!(n_ours_of(&["memreel::free", "core::mem::drop", "app::main"]), 2);
        assert_eq!(n_ours_of(&["core::mem::drop", "app::main"]), 0);
        assert_eq!(n_ours_of(&["memreel_app::main", "memreel::alloc"]), 0, "another crate of a longer name");
        assert_eq!(n_ours_of(&["core::ops::call_once", "app::main"]), 0);
    }
}
