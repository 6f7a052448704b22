//! The table of a heap's process, against programs that know what they have: each row, and the sum against the kernel.

#![forbid(unsafe_code)]

use std::{process::Command, thread};

use memreel::analysis::{DeviceOwners, RowKind, owners};
use memreel_snapshot::Snapshot;

use super::{Run, program, python, record};

/// Programs of `crates/hooks/malloc/tests/resident.c`.
const IN_C: [&str; 13] = [
    "survivors",
    "many",
    "shared",
    "left",
    "stacks",
    "beside",
    "file",
    "arenas",
    "tops",
    "untouched",
    "part",
    "huge",
    "forked",
];

/// The same for Python, which is asked for a word and prints lines as the programs in C do.
const IN_PYTHON: [&str; 6] = ["blocks", "arenas", "part", "file", "shared", "threads"];
/// `ctypes` is for the run without a recording, whose hook imports it.
const SCRIPT: &str = r#"
import ctypes, mmap, os, re, sys, threading, time
MIB, mode, path = 1 << 20, *sys.argv[1:3]
PAGE = mmap.PAGESIZE

def of_arenas():
    """The bytes of the interpreter's arenas, less what it has not touched of them."""
    read, write = os.pipe()
    old = os.dup(2)
    os.dup2(write, 2)
    sys._debugmallocstats()
    os.dup2(old, 2)
    [os.close(file) for file in (old, write)]
    text = open(read).read()
    size = lambda what: int(re.search(rf'{what} += +([\d,]+)', text)[1].replace(',', ''))
    unused = size(r'unused pools \* \d+ bytes') + size('lost to arena alignment')
    return size('bytes/arena') - unused

def touch(block, end, step=PAGE):
    for at in range(0, end, step):
        block[at] = 1

if mode == 'blocks':
    # Every second block stays: the others are freed around them. An interpreter without a library of its own is the program
    # too, with a MiB.
    all = [bytes(4000) for _ in range(80_000)]
    kept = all[::2]
    del all
    # The header of an object is a part of its block.
    row, size = 'program', len(kept) * sys.getsizeof(kept[0]) + sys.getsizeof(kept)
elif mode == 'arenas':
    kept = [(at, at + 1) for at in range(1_000_000, 2_000_000)]
    row, size = 'anonymous mappings', of_arenas()
elif mode == 'part':
    kept = mmap.mmap(-1, 256 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    touch(kept, 64 * MIB)
    row, size = 'anonymous mappings', 64 * MIB + of_arenas()
elif mode == 'file':
    with open(path, 'wb+') as file:
        file.truncate(128 * MIB)
        kept = mmap.mmap(file.fileno(), 128 * MIB, prot=mmap.PROT_READ)
    sum(kept[at] for at in range(0, 64 * MIB, PAGE))
    row, size = 'mapped files', 64 * MIB
elif mode == 'shared':
    with open(path, 'wb+') as file:
        file.truncate(64 * MIB)
        kept = mmap.mmap(file.fileno(), 64 * MIB)
    touch(kept, 64 * MIB)
    row, size = 'shared memory', 64 * MIB
elif mode == 'threads':
    def keep():
        kept.append(bytearray(4 * MIB))
        time.sleep(60)
    kept = []
    [threading.Thread(target=keep, daemon=True).start() for _ in range(64)]
    while len(kept) < 64:
        time.sleep(.01)
    row, size = 'program', 256 * MIB
print(f'{row}: {size}')
text = open('/proc/self/smaps_rollup').read()
print('resident:', int(re.search(r'\nRss: +(\d+) kB', text)[1]) * 1024, flush=True)
time.sleep(int(os.environ.get('HOLD_SECONDS', 4)))
os._exit(0)
"#;

/// What a row may be wrong by, as a part of the truth.
const MOST_WRONG: f64 = 0.01;

/// What a program and its table say of one row.
struct Known {
    row: String,
    said: i128,
    found: i128,
}

impl Known {
    fn text(&self, program: &str) -> String {
        let Known { row, said, found } = self;
        let wrong = self.parts_wrong() * 100.;
        format!("{program:<18} {row:<18} {said:>12} {found:>12} {wrong:>8.2} %")
    }

    #[allow(clippy::cast_precision_loss, reason = "to be printed")]
    fn parts_wrong(&self) -> f64 {
        (self.found - self.said) as f64 / self.said as f64
    }
}

/// Returns the table of all processes of a run.
fn table(run: &Run) -> DeviceOwners {
    let snapshots = run.snapshots();
    let all: Vec<&Snapshot> = snapshots.iter().map(|(_, snapshot)| snapshot).collect();
    owners(&all).into_iter().find(|table| table.host.is_some()).expect("the processes were looked at")
}

/// Returns what a table has of a row that a program printed; `resident` is the sum of the rows.
fn found(table: &DeviceOwners, row: &str) -> i128 {
    let rows = table.rows.iter();
    match row {
        "resident" => rows.filter(|of| of.owner != "unexplained").filter_map(|of| of.now_bytes).sum(),
        // Those whose stack is known have rows of their own.
        "anonymous mappings" => {
            rows.filter(|of| of.kind == RowKind::Mapped).filter_map(|of| of.now_bytes).sum()
        }
        "huge pages" => table.host.as_ref().unwrap().huge_bytes.into(),
        _ => rows.filter(|of| of.owner == row).filter_map(|of| of.now_bytes).sum(),
    }
}

/// Runs a program that is asked for `mode`, and compares each line that it prints. Returns what the recording printed too.
fn compare(words: &[&str], mode: &str) -> (Vec<Known>, String) {
    // Where much else runs, the last look may be from before the program had all: then it waits longer.
    let compared = compare_for("4", words, mode);
    let is_early = |of: &Known| of.said != 0 && of.parts_wrong().abs() > MOST_WRONG;
    if compared.0.iter().any(is_early) { compare_for("20", words, mode) } else { compared }
}

fn compare_for(seconds: &str, words: &[&str], mode: &str) -> (Vec<Known>, String) {
    // A file that stays is in shared memory, which the others do not need.
    let is_shared = ["left", "shared"].contains(&mode);
    let folder = if is_shared { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() }.unwrap();
    let file = folder.path().join("file").display().to_string();
    let run = record(&["--heap", "-o", "run.pickle"], &[words, &[mode, &file, "hold"]].concat());
    let run = run.env("HOLD_SECONDS", seconds).run();
    assert_eq!(run.status, Some(0), "{mode}: {}{}", run.out, run.err);
    let table = table(&run);
    let known = |line: &str| {
        let (row, bytes) = line.rsplit_once(": ").unwrap();
        Known { row: row.to_owned(), said: bytes.parse().unwrap(), found: found(&table, row) }
    };
    (run.out.lines().map(known).collect(), run.err)
}

/// What the kernel gave no huge page cannot be compared.
fn has_no_huge_pages(known: &[Known]) -> bool {
    known.iter().any(|of| of.row == "huge pages" && of.said == 0)
}

#[test]
fn each_row_is_what_the_program_has_and_the_sum_is_the_kernels() {
    let in_c = program("resident");
    let python = python();
    let of_c = IN_C.map(|mode| (format!("C {mode}"), vec![&*in_c], mode));
    let of_python = python.iter().flat_map(|python| {
        IN_PYTHON.map(|mode| (format!("Python {mode}"), vec![python, "-c", SCRIPT], mode))
    });
    let all: Vec<_> = of_c.into_iter().chain(of_python).collect();
    let mut compared = Vec::new();
    // They wait most of the time.
    for some in all.chunks(6) {
        compared.extend(thread::scope(|scope| {
            let running: Vec<_> =
                some.iter().map(|(_, words, mode)| scope.spawn(move || compare(words, mode))).collect();
            running.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        }));
    }
    let mut wrong = Vec::new();
    for ((name, ..), (known, err)) in all.iter().zip(compared) {
        if has_no_huge_pages(&known) {
            println!("{name:<18} skipped: the kernel gave no huge page");
            continue;
        }
        for known in known {
            println!("{}", known.text(name));
            if known.parts_wrong().abs() > MOST_WRONG {
                wrong.push(format!("{}\n{err}", known.text(name)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns what the kernel says of a program that runs alone, as it prints it.
fn resident_alone(words: &[&str], mode: &str) -> i128 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let output = Command::new(words[0])
        .args(&words[1..])
        .args([mode])
        .arg(file)
        .arg("hold")
        .env("HOLD_SECONDS", "0")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("resident: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("{mode}: {text}"))
}

/// What a recording adds to the rows of others: pages of the C library that are read to walk stacks, and twice as much of an
/// interpreter.
const READ_BYTES: i128 = 192 << 10;

#[test]
fn the_recorders_row_is_what_a_recording_adds() {
    let in_c = program("resident");
    let python = python();
    let modes = ["survivors", "untouched", "stacks", "arenas"];
    let mut all = modes.map(|mode| (vec![&*in_c], mode, 20)).to_vec();
    // The hook of an interpreter, and what is read of that, are the interpreter's.
    all.extend(python.iter().map(|python| (vec![&**python, "-c", SCRIPT], "part", 10)));
    thread::scope(|scope| {
        for (words, mode, one_of) in &all {
            scope.spawn(move || assert_added(words, mode, *one_of));
        }
    });
}

/// Asserts that memreel's row is what a recording adds to a program. It may be wrong by that divided by `one_of`.
fn assert_added(words: &[&str], mode: &str, one_of: i128) {
    let alone = resident_alone(words, mode);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").display().to_string();
    let run = record(&["--heap", "-o", "run.pickle"], &[words, &[mode, &file, "hold"]].concat()).run();
    let line = run.out.lines().find_map(|line| line.strip_prefix("resident: "));
    let added = line.unwrap().parse::<i128>().unwrap() - alone;
    let known = Known { row: "memreel".into(), said: added, found: found(&table(&run), "memreel") };
    println!("{}", known.text(mode));
    let wrong = (known.found - known.said).abs();
    assert!(wrong <= added / one_of + READ_BYTES, "{}\n{}", known.text(mode), run.err);
}
