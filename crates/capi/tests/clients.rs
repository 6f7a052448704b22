//! Tests the C interface from C and C++ on the host device; `cc` compiles the programs in this folder.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use memreel::{Action, pickle, validate};
use memreel_testing::built;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema");

/// Runs a compiler. There is one, because linking this test needed it.
fn compile(compiler: &str, output: &Path, arguments: &[&str]) {
    let folder = built(&["memreel-capi"]).display().to_string();
    let made = Command::new(compiler)
        .args(["-Wall", "-Werror", "-g", "-I", SCHEMA, "-o"])
        .arg(output)
        .args(arguments)
        .args([&format!("-L{folder}"), &format!("-Wl,-rpath,{folder}")])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn run(program: &Path, arguments: &[&Path]) -> Output {
    Command::new(program).args(arguments).env("MEMREEL_DEVICE", "host").output().unwrap()
}

/// Runs a program that may hang, and stops it after two minutes.
fn run_limited(program: &Path, arguments: &[&Path]) -> Output {
    let child = Command::new(program)
        .args(arguments)
        .env("MEMREEL_DEVICE", "host")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let (over, is_over) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if is_over.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(over);
    watch.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_function_of_the_header_is_exported_and_no_other() {
    let header = fs::read_to_string(format!("{SCHEMA}/memreel.h")).unwrap();
    let library = built(&["memreel-capi"]).join("libmemreel.so");
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let listed = text(&listed.stdout);
    let mut exported: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|n| n.starts_with("memreel_"))
        .collect();
    let declarations = header.lines().filter(|line| !line.starts_with([' ', '/']));
    let mut declared: Vec<&str> = declarations
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("memreel_"))
        .collect();
    exported.sort_unstable();
    declared.sort_unstable();
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, exported);
}

#[test]
fn a_program_in_c_allocates_records_and_dumps() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    compile("cc", &program, &[&format!("{HERE}/client.c"), "-lmemreel", "-std=c11"]);
    let [path, oom] = ["client.pickle", "oom.pickle"].map(|name| folder.path().join(name));
    let ran = run(&program, &[&path, &oom]);
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let stderr = text(&ran.stderr);
    // Three failures of memreel_malloc and one of memreel_cupy_malloc print one line each.
    assert_eq!(stderr.lines().count(), 4, "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with("memreel: ")), "{stderr}");
    assert_eq!(stderr.matches("memreel: out of memory: 64.00 MiB needs a segment of 64.00 MiB").count(), 2);
    assert!(!stderr.contains("CUDA") && !stderr.contains("PyTorch"), "memory of the host: {stderr}");

    let snapshot = pickle::load(&path).unwrap();
    let findings = validate::validate(&snapshot);
    assert!(findings.is_empty(), "{findings:?}");
    let count = |device: usize, action: Action| {
        let trace = &snapshot.device_traces[device];
        trace.iter().filter(|entry| entry.action == Some(action)).count()
    };
    // 1000, 3 MiB, pooled, plain, CuPy's two, and the reported one.
    assert_eq!((count(0, Action::Alloc), count(0, Action::FreeCompleted), count(0, Action::Oom)), (7, 5, 3));
    assert_eq!((count(1, Action::Alloc), count(1, Action::SegmentAlloc), count(1, Action::Oom)), (1, 2, 1));
    let named =
        snapshot.device_traces.iter().flatten().filter(|entry| entry.action == Some(Action::Annotate));
    let names: Vec<&str> = named.map(|entry| snapshot.user_metadata(entry)).collect();
    assert_eq!(names, ["weights of layer 3", "reported"]);
    let frames = snapshot.device_traces[0][1].stack.map(|stack| snapshot.frames(Some(stack)).count());
    assert!(frames.is_none_or(|n| n > 0));
    let stack = snapshot.device_traces[0][1].stack;
    let ours: Vec<_> =
        snapshot.frames(stack).filter(|frame| frame.filename.contains("crates/capi/src/")).collect();
    assert!(ours.is_empty(), "a stack begins at the caller of the C interface: {ours:?}");
    assert!(pickle::load(&oom).is_ok(), "the failed request left a snapshot");
}

#[test]
fn a_program_in_c_dumps_at_its_exit_and_when_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("triggers");
    compile("cc", &program, &[&format!("{HERE}/triggers.c"), "-lmemreel", "-std=c11"]);
    let mut told = Command::new(&program);
    told.env("MEMREEL_DEVICE", "host").env("MEMREEL", "all,dump=exit,file=of-{cause}.pickle");
    let ran = told.current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}{}", ran.status, text(&ran.stderr));
    for name in ["of-program.pickle", "of-exit.pickle"] {
        let snapshot = pickle::load(folder.path().join(name)).unwrap();
        let allocs = snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc));
        let sizes: Vec<u64> = allocs.map(|entry| entry.size).collect();
        assert_eq!(sizes, [777, 1000], "{name}: the ledger's block too");
    }
}

#[test]
fn no_memory_is_thrown_as_what_pytorch_has_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let [program, c10, cuda] =
        ["catcher", "libc10.so", "libc10_cuda.so"].map(|name| folder.path().join(name));
    compile("c++", &program, &[&format!("{HERE}/catcher.cpp"), "-lmemreel", "-ldl"]);
    let fake = format!("{HERE}/torch.cpp");
    compile("c++", &c10, &[&fake, "-shared", "-fPIC", "-Wl,-soname,libc10.so"]);
    let beside = format!("-L{}", folder.path().display());
    let found = format!("-Wl,-rpath,{}", folder.path().display());
    let arguments = [
        &fake,
        "-DOUT_OF_MEMORY",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libc10_cuda.so",
        &beside,
        &found,
        "-lc10",
    ];
    compile("c++", &cuda, &arguments);

    let all = run(&program, &[&c10, &cuda]);
    let printed = text(&all.stdout);
    assert_eq!(printed.matches("no memory: OutOfMemoryError").count(), 3, "{printed}{}", text(&all.stderr));
    // The host's memory has a text of its own; PyTorch's is for GPUs.
    assert!(
        printed.contains("out of memory: 64.00 MiB needs a segment of 64.00 MiB on device 0"),
        "{printed}"
    );
    assert!(!printed.contains("CUDA out of memory"), "{printed}");
    assert!(printed.contains("\n  with expandable segments  "), "the verdict follows: {printed}");
    assert!(printed.contains("no device: Error") && printed.contains("there is no device 5"), "{printed}");
    assert!(printed.contains("unwound: 4") && printed.contains("afterwards: memory"), "{printed}");

    let without_class = text(&run(&program, &[&c10]).stdout);
    assert_eq!(without_class.matches("no memory: Error").count(), 3, "{without_class}");
    assert!(without_class.contains("unwound: 4"), "{without_class}");

    let alone = run(&program, &[]);
    let printed = text(&alone.stdout);
    assert_eq!(printed.matches("no memory: null").count(), 3, "{printed}");
    assert!(printed.contains("no device: null") && printed.contains("afterwards: memory"), "{printed}");
    assert_eq!(text(&alone.stderr).lines().count(), 4, "{}", text(&alone.stderr));
}

#[test]
fn an_exception_of_a_pools_function_reaches_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("filter_throws");
    compile("c++", &program, &[&format!("{HERE}/filter_throws.cpp"), "-lmemreel", "-pthread"]);
    let ran = run_limited(&program, &[]);
    let printed = text(&ran.stdout);
    assert!(ran.status.success(), "{}\n{printed}{}", ran.status, text(&ran.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    let thrown = "device-side assert triggered";
    assert_eq!(
        lines[..4],
        [
            "begin: a copy".to_owned(),
            format!("malloc: {thrown}"),
            format!("cupy: {thrown}"),
            "in the pool: memory".to_owned(),
        ]
    );
    assert_eq!(lines[4..7], ["elsewhere: memory", "afterwards: memory", "ended: memory, 0 left"]);
    // One block in the pool and three elsewhere: the requests whose function threw took nothing.
    assert!(lines[7].contains("\"allocation.all.allocated\":4,"), "{}", lines[7]);
    assert!(lines[7].contains("\"segment.all.allocated\":3,"), "{}", lines[7]);
}

#[test]
fn a_contradiction_is_charged_to_its_own_report() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("reports");
    compile("cc", &program, &[&format!("{HERE}/reports.c"), "-lmemreel", "-pthread", "-std=c11"]);
    let ran = run_limited(&program, &[]);
    let printed = text(&ran.stdout);
    assert!(printed.contains("100000 of 100000 contradicting reports failed, 100000 explained"), "{printed}");
    assert!(printed.contains("0 of 200000 sound reports failed"), "{printed}");
}

#[test]
fn children_of_a_busy_program_in_c_never_hang() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("forks");
    compile("cc", &program, &[&format!("{HERE}/forks.c"), "-lmemreel", "-pthread", "-std=gnu11"]);
    let ran = run_limited(&program, &[&folder.path().join("forks.pickle")]);
    let printed = text(&ran.stdout);
    assert!(printed.contains("100 children, 0 hung, 0 failed"), "{}\n{printed}", ran.status);
}

/// What the threads have of the library is dropped by code that is gone.
#[test]
fn threads_may_outlive_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("unloaded");
    compile("cc", &program, &[&format!("{HERE}/unloaded.c"), "-pthread", "-ldl", "-std=gnu11"]);
    let ran = run(&program, &[&built(&["memreel-capi"]).join("libmemreel.so")]);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn a_program_with_rights_of_others_obeys_no_variable() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("owned");
    // The other user must reach the library, and may write into the folder.
    fs::copy(built(&["memreel-capi"]).join("libmemreel.so"), folder.path().join("libmemreel.so")).unwrap();
    let library = folder.path().join("libmemreel.so").display().to_string();
    compile("cc", &program, &[&format!("{HERE}/triggers.c"), &library, "-std=c11"]);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let files = || {
        let mut files: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        files
    };
    let run = || {
        let mut told = Command::new(&program);
        told.env("MEMREEL_DEVICE", "host")
            .env("MEMREEL", "all,dump=exit,file=of-{cause}.pickle,tape=of.tape");
        told.env_remove("LD_LIBRARY_PATH");
        let ran = told.current_dir(folder.path()).output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}{}", ran.status, text(&ran.stderr));
    };
    run();
    assert_eq!(files(), ["libmemreel.so", "of-exit.pickle", "of-program.pickle", "of.tape", "owned"]);
    for name in ["of-exit.pickle", "of-program.pickle", "of.tape"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let set = chown(&program, Some(NOBODY), None)
        .and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o4755)));
    if let Err(error) = set {
        println!("skipped: cannot make a setuid program: {error}");
        return;
    }
    run();
    // What the program asks for by itself is written.
    assert_eq!(files(), ["libmemreel.so", "of-program.pickle", "owned"]);
}
