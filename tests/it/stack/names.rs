//! Frames of libraries that were unloaded, replaced, or followed by others at the same addresses.

use std::{
    ffi::c_void,
    fs,
    path::{Path, PathBuf},
};

use memreel::{Allocation, Reel, recorder::Recording};

use memreel_testing::library::{Library, compile};

/// Runs `work` below the functions of a library of [`compile`].
fn run_below(library: &Library, mut work: &mut dyn FnMut()) {
    extern "C" fn callback(work: *mut c_void) {
        // SAFETY: the pointer made below, used while `run` waits.
        unsafe { (*work.cast::<&mut dyn FnMut()>())() }
    }
    type Run = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void) -> usize;
    // SAFETY: `run` is a function of that type in every library of `compile`.
    let run = unsafe { std::mem::transmute::<*mut c_void, Run>(library.function(c"run")) };
    run(callback, (&raw mut work).cast());
}

/// Whether a file is mapped anywhere in this process.
fn is_loaded(path: &Path) -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap())
}

/// Compiles a library with line tables.
fn library(folder: &Path, name: &str) -> PathBuf {
    compile(folder, name, &["-Cdebuginfo=line-tables-only"])
}

/// Allocates below a library's functions and unloads it again.
fn allocates_below(reel: &Reel, library: &Path) -> Allocation {
    let mut block = None;
    {
        let library = Library::open(library);
        run_below(&library, &mut || block = Some(std::hint::black_box(reel.alloc(512).unwrap())));
    }
    assert!(!is_loaded(library), "{} is still in memory, so nothing would be tested", library.display());
    block.unwrap()
}

#[inline(never)]
fn on_the_left(reel: &Reel, library: &Path) -> Allocation {
    std::hint::black_box(allocates_below(reel, library))
}

#[inline(never)]
fn on_the_right(reel: &Reel, library: &Path) -> Allocation {
    let block = allocates_below(reel, library);
    std::hint::black_box("another function, not the same folded into one");
    block
}

fn reel() -> Reel {
    Reel::builder().history(Recording::all()).build().unwrap()
}

/// `name:line` of the frames of each `alloc` whose file ends with `ending` or whose name contains it.
fn frames_in(reel: &Reel, ending: &str) -> Vec<Vec<String>> {
    let snapshot = reel.snapshot();
    let allocs = snapshot.device_traces[0].iter().filter(|e| e.action == Some(memreel::Action::Alloc));
    let frames = allocs.map(|entry| {
        let frames = snapshot.stacks.frames(entry.stack.unwrap());
        let name = |frame: &memreel::snapshot::Frame| format!("{}:{}", frame.name, frame.line);
        let is_meant =
            |f: &&memreel::snapshot::Frame| f.filename.ends_with(ending) || f.name.contains(ending);
        frames.filter(is_meant).map(name).collect()
    });
    frames.collect()
}

#[test]
fn a_library_keeps_its_names_after_it_is_unloaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), "was_here");
    let reel = reel();
    let _block = allocates_below(&reel, &path);
    assert_eq!(frames_in(&reel, "was_here.rs"), [["was_here:6", "run:11"]]);
}

#[test]
fn a_replaced_file_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (library(folder.path(), "old_one"), library(folder.path(), "new_one"));
    let reel = reel();
    let _block = allocates_below(&reel, &old);
    fs::rename(&new, &old).unwrap();
    assert_eq!(frames_in(&reel, "_one.rs"), [[""; 0]], "not misnamed");
    let numbers = frames_in(&reel, "libold_one.so+0x");
    assert_eq!(numbers[0].len(), 2, "{numbers:?}");
    fs::remove_file(&old).unwrap();
    assert_eq!(frames_in(&reel, "libold_one.so+0x"), numbers, "nor when it is gone");
}

/// Twenty libraries of the same layout, one after another; the loader puts most of them in the same place.
#[test]
fn libraries_at_the_same_addresses_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["left_side", "west_side"].map(|name| library(folder.path(), name));
    let reel = reel();
    // From two places, so that the stacks differ although all of the libraries' addresses may be equal.
    let blocks = (0..10).flat_map(|_| [on_the_left(&reel, &paths[0]), on_the_right(&reel, &paths[1])]);
    let _blocks: Vec<Allocation> = blocks.collect();
    let frames = frames_in(&reel, "_side.rs");
    assert_eq!(frames.len(), 20);
    for (index, frames) in frames.iter().enumerate() {
        let name = ["left_side:6", "west_side:6"][index % 2];
        assert_eq!(frames, &[name, "run:11"], "{index}");
    }
}

/// Two recorders see equal numbers, while one library and then the other is loaded.
#[test]
fn each_recorder_names_the_libraries_of_its_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["early_side", "later_side"].map(|name| library(folder.path(), name));
    let reels = [reel(), reel()];
    // From one place, so that two stacks are equal where the libraries' addresses are.
    let turns = std::hint::black_box([0, 1].repeat(5));
    let _blocks: Vec<Allocation> =
        turns.into_iter().map(|turn| on_the_left(&reels[turn], &paths[turn])).collect();
    for (reel, name) in reels.iter().zip(["early_side:6", "later_side:6"]) {
        assert_eq!(frames_in(reel, "_side.rs"), [[name, "run:11"]; 5]);
    }
}
