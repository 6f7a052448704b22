//! Records the heap of programs that know nothing of it.

mod allocators;
mod cancelled;
mod forks;
mod maps;
mod resident;
mod storage;

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel::{BlockState, Recovered, Snapshot, validate};
use object::{Object, ObjectSymbol};
use tempfile::TempDir;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// The folder of the shared libraries.
fn libraries() -> PathBuf {
    memreel_testing::built(&["memreel-preload", "memreel-heap", "memreel-capi"])
}

/// Runs a compiler. There is one, because linking this test needed it.
fn cc(arguments: &[&str]) {
    let made = Command::new("cc").args(["-w", "-O1"]).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Builds the program that counts, and returns its path.
fn counting(folder: &TempDir) -> PathBuf {
    let program = folder.path().join("counting");
    cc(&["-o", program.to_str().unwrap(), &format!("{HERE}/counting.c"), "-lpthread"]);
    program
}

/// A command with the libraries in front of it, `last` behind them.
fn recorded(program: &Path, folder: &Path, last: &[&Path]) -> Command {
    let ours = ["libmemreel_preload.so", "libmemreel_heap.so"].map(|name| libraries().join(name));
    let all: Vec<String> = ours
        .iter()
        .map(|path| &**path)
        .chain(last.iter().copied())
        .map(|path| path.display().to_string())
        .collect();
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", all.join(":")).env("MEMREEL", "all").env("MEMREEL_RECORD", folder);
    command
}

/// The snapshots of the tapes in a folder.
fn snapshots(folder: &Path) -> Vec<Snapshot> {
    let tapes = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let tapes = tapes.filter(|path| path.extension().is_some_and(|end| end == "tape"));
    tapes.map(|tape| Recovered::read(tape).unwrap().snapshot()).collect()
}

/// The number and the bytes of live blocks from `least` bytes on.
fn live(snapshot: &Snapshot, least: u64) -> (usize, u64) {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let sizes: Vec<u64> = blocks
        .filter(|block| block.state == Some(BlockState::ActiveAllocated))
        .map(|block| block.requested_size)
        .filter(|bytes| *bytes >= least)
        .collect();
    (sizes.len(), sizes.iter().sum())
}

fn assert_valid(snapshot: &Snapshot) {
    let findings = validate::validate(snapshot);
    let worst = findings.iter().filter(|found| found.severity == validate::Severity::Error).count();
    assert_eq!(worst, 0, "{:?}", findings.first());
}

fn printed(done: &Output) -> (usize, u64) {
    let text = String::from_utf8_lossy(&done.stdout);
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    (usize::try_from(numbers.next().unwrap_or(0_u64)).unwrap(), numbers.next().unwrap_or(0))
}

#[test]
fn every_live_block_of_threads_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (program, tapes) = (counting(&folder), tempfile::tempdir().unwrap());
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
    let counted = printed(&done);
    assert!(counted.0 > 50, "{counted:?}");
    assert_eq!(live(snapshot, 100_000), counted);
    assert_valid(snapshot);
}

#[test]
fn what_is_allocated_for_memreel_is_not_the_programs() {
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = folder.path().join("own_work");
    cc(&["-o", program.to_str().unwrap(), &format!("{HERE}/own_work.c"), "-ldl"]);
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
    assert_eq!(live(snapshot, 100_000), printed(&done));
    assert_valid(snapshot);
}

/// A child records on a tape of its own: what it has from its parent, and its own.
#[test]
fn children_of_fork_have_tapes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (program, tapes) = (counting(&folder), tempfile::tempdir().unwrap());
    let done = recorded(&program, tapes.path(), &[]).arg("5").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let snapshots = snapshots(tapes.path());
    assert_eq!(snapshots.len(), 6);
    let of_children = snapshots.iter().filter(|snapshot| live(snapshot, 400_000).0 == 1).count();
    assert_eq!(of_children, 5);
    assert!(snapshots.iter().any(|snapshot| live(snapshot, 100_000) == printed(&done)));
    // What the recorder does at a fork is not the program's.
    for snapshot in &snapshots {
        let mut stacks = snapshot.device_traces.iter().flatten().map(|entry| entry.stack);
        let has_fork =
            |stack| snapshot.frames(stack).any(|frame| frame.name.contains("memreel::process::fork"));
        assert!(!stacks.any(has_fork), "the recorder's own blocks are recorded");
    }
}

#[test]
fn an_allocator_behind_ours_serves_and_one_in_front_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (program, shim) = (counting(&folder), folder.path().join("libshim.so"));
    cc(&["-shared", "-fPIC", "-o", shim.to_str().unwrap(), &format!("{HERE}/shim.c")]);
    let tapes = tempfile::tempdir().unwrap();
    let done = recorded(&program, tapes.path(), &[&shim]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("shim served"));
    // Functions that the other allocator lacks are the C library's.
    assert_eq!(live(&snapshots(tapes.path())[0], 100_000), printed(&done));
    let mut before = recorded(&program, tapes.path(), &[]);
    let ours = before.get_envs().find_map(|(name, value)| (name == "LD_PRELOAD").then_some(value?));
    let both = format!("{}:{}", shim.display(), ours.unwrap().to_string_lossy());
    assert!(before.env("LD_PRELOAD", both).status().unwrap().success());
}

/// The address that such a program has for `malloc` is not another library's.
#[test]
fn a_program_at_a_fixed_address_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fixed");
    cc(&["-no-pie", "-fno-pie", "-o", program.to_str().unwrap(), &format!("{HERE}/fixed.c")]);
    let tapes = tempfile::tempdir().unwrap();
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert_eq!(live(&snapshots(tapes.path())[0], 100_000), printed(&done));
}

/// What programs print is what they print without the libraries.
#[test]
fn programs_behave_as_without_it() {
    let programs: [&[&str]; 3] = [
        &["git", "--version"],
        &[
            "python3",
            "-c",
            "import json, threading; print(sum(len(json.dumps([i] * 50)) for i in range(2000)))",
        ],
        &["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; exit 3"],
    ];
    for words in programs {
        let Ok(plain) = Command::new(words[0]).args(&words[1..]).output() else {
            eprintln!("skipped: no {}", words[0]);
            continue;
        };
        let tapes = tempfile::tempdir().unwrap();
        let with = recorded(Path::new(words[0]), tapes.path(), &[]).args(&words[1..]).output().unwrap();
        assert_eq!((with.status, with.stdout), (plain.status, plain.stdout), "{words:?}");
        assert_eq!(with.stderr, plain.stderr, "{words:?}");
        let snapshots = snapshots(tapes.path());
        assert!(!snapshots.is_empty());
        snapshots.iter().for_each(assert_valid);
    }
}

/// The names that a library exports.
fn exported(library: &str) -> BTreeSet<String> {
    let bytes = fs::read(libraries().join(library)).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.map(|symbol| symbol.name().unwrap().to_owned()).collect()
}

/// Returns whether a name is one of C++'s `operator new` or `operator delete`.
fn is_operator(name: &str) -> bool {
    ["_Znw", "_Zna", "_Zdl", "_Zda"].iter().any(|start| name.starts_with(start))
}

#[test]
fn libraries_stand_in_front_of_nothing_else() {
    let of_malloc = [
        "aligned_alloc",
        "calloc",
        "free",
        "malloc",
        "memalign",
        "posix_memalign",
        "pvalloc",
        "realloc",
        "reallocarray",
        "valloc",
        // Of C23, and of the past.
        "cfree",
        "free_aligned_sized",
        "free_sized",
        // Of jemalloc.
        "dallocx",
        "mallocx",
        "rallocx",
        "sdallocx",
        "xallocx",
    ];
    let is_known = |name: &str| of_malloc.contains(&name) || is_operator(name) || name.starts_with("mi_");
    let mut heap = exported("libmemreel_heap.so");
    // It allocates while it holds a lock that a recorder needs.
    assert!(heap.remove("pthread_getattr_np"));
    // Whose fork handlers are called first.
    assert!(heap.remove("__register_atfork"));
    // ThreadSanitizer calls it in a thread that it does not know yet.
    assert!(heap.remove("pthread_attr_destroy"));
    // Where a thread's handlers run.
    let of_stacks = ["sigaltstack", "pthread_attr_setstack", "pthread_attr_setstacksize"];
    assert!(of_stacks.iter().all(|name| heap.remove(*name)));
    // Those that map memory.
    let of_maps = ["brk", "mmap", "mmap64", "mremap", "munmap", "sbrk", "shmat"];
    assert!(of_maps.iter().all(|name| heap.remove(*name)));
    assert_eq!(heap.iter().filter(|name| !is_known(name)).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(of_malloc.iter().all(|name| heap.contains(*name)));
    assert_eq!(heap.iter().filter(|name| is_operator(name)).count(), 20);
    // A program that links the C interface is not interposed.
    let c_interface = exported("libmemreel.so");
    assert!(c_interface.contains("memreel_record"));
    let is_strange = |name: &&String| !name.starts_with("memreel_");
    assert_eq!(c_interface.iter().filter(is_strange).collect::<Vec<_>>(), Vec::<&String>::new());
    let preload = exported("libmemreel_preload.so");
    // Those that give rights or the root away, and those that start programs, which may be in another root.
    let of_rights = [
        "chroot",
        "initgroups",
        "setegid",
        "seteuid",
        "setgid",
        "setgroups",
        "setregid",
        "setresgid",
        "setresuid",
        "setreuid",
        "setuid",
    ];
    let of_programs =
        ["execv", "execve", "execveat", "execvp", "execvpe", "fexecve", "posix_spawn", "posix_spawnp"];
    let is_wrapped = |name: &str| of_rights.contains(&name) || of_programs.contains(&name) || name == "dlsym";
    let is_driver = |name: &str| name.starts_with("cu") || name.starts_with("memreel_");
    assert!(preload.iter().all(|name| is_wrapped(name) || is_driver(name)), "{preload:?}");
    assert!(of_malloc.iter().all(|name| !preload.contains(*name)));
}

/// A program that has the libraries in it, and more rights than its caller, is not the caller's to record.
#[test]
fn a_program_with_rights_of_others_obeys_no_variable() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The other user must reach the libraries, and may write into the folder.
    let ours = ["libmemreel_heap.so", "libmemreel_preload.so"].map(|name| {
        fs::copy(libraries().join(name), at(name)).unwrap();
        at(name).display().to_string()
    });
    fs::create_dir(at("run")).unwrap();
    for path in [folder.path(), &at("run")] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let program = at("owned");
    cc(&[
        "-o",
        program.to_str().unwrap(),
        "-Wl,--no-as-needed",
        &ours[0],
        &ours[1],
        &format!("{HERE}/counting.c"),
        "-lpthread",
    ]);
    let n_files = |variable: &str, value: &str| {
        let done = Command::new(&program).current_dir(at("run")).env(variable, value).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let found: Vec<_> = fs::read_dir(at("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.iter().for_each(|path| fs::remove_file(path).unwrap());
        found.len()
    };
    let asked = [
        ("MEMREEL", "all,dump=exit,file=exit.pickle"),
        ("MEMREEL", "all,tape=all.tape"),
        ("MEMREEL_RECORD", "."),
    ];
    for (variable, value) in asked {
        assert_eq!(n_files(variable, value), 1, "{variable}={value}");
    }
    let set = chown(&program, Some(NOBODY), None)
        .and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o4755)));
    if let Err(error) = set {
        println!("skipped: cannot make a setuid program: {error}");
        return;
    }
    for (variable, value) in asked {
        assert_eq!(n_files(variable, value), 0, "{variable}={value}");
    }
}
