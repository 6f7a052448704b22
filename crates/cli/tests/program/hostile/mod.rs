//! Every command on every file of a hostile corpus, with limits of memory and time.
//!
//! Without a variable, the files are small and the limits generous, so that only what is out of proportion fails:
//!
//! ```text
//! cargo test -p memreel-cli --test program hostile
//! ```
//!
//! All files go into one run of a command, and each alone only if that run fails. With these variables, the test
//! measures another program on larger files, each alone, and prints a JSON object a line: file,
//! form, command, seconds, peak of resident memory, and bytes of output:
//!
//! ```text
//! MEMREEL_HOSTILE_PROGRAM=target/release/memreel MEMREEL_HOSTILE_BYTES=10000000 MEMREEL_HOSTILE_TABLE=table.jsonl \
//!     cargo test -p memreel-cli --test program hostile::every_command
//! MEMREEL_HOSTILE_SECONDS=30 MEMREEL_HOSTILE_MEGABYTES=4000    other limits of one run
//! MEMREEL_HOSTILE_CASES=keys,json MEMREEL_HOSTILE_COMMANDS=top   only files and commands with these texts
//! MEMREEL_HOSTILE_KEEP=folder                                    write the corpus there and run nothing
//! ```

mod cases;
mod commands;
#[cfg(target_os = "linux")]
mod comparisons;
#[cfg(unix)]
mod limited;
mod machine;
#[cfg(target_os = "linux")]
mod pairs;
mod records;
mod sink;

use std::{
    env, fs,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

#[cfg(target_os = "linux")]
use crate::own_process;
use cases::{CASES, Case};
use commands::{COMMANDS, FILE, JSON_TOO, OUT, takes_one};
use limited::{Limits, Used, run};
use sink::Form;

/// The length of the files in an ordinary test, in bytes.
const N_BYTES: usize = 8_000;

/// In an ordinary test, a command that takes one file at a time has one in this number of files.
const N_SHARES: usize = 4;

/// The longest message about one file: names from files are quoted in part.
const MAX_MESSAGE_BYTES: u64 = 4 * 1024;

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    let text = env::var(format!("MEMREEL_HOSTILE_{name}")).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("MEMREEL_HOSTILE_{name}={text}")))
}

/// Returns whether a text is asked for: it has one of the texts of a variable, or the variable is not set.
fn is_asked_for(variable: &str, text: &str) -> bool {
    let wanted = env::var(format!("MEMREEL_HOSTILE_{variable}")).unwrap_or_default();
    wanted.is_empty() || wanted.split(',').any(|part| text.contains(part))
}

/// Returns every case with each form that it has.
fn files() -> impl Iterator<Item = (&'static Case, Form)> {
    let forms = |case: &'static Case| {
        let json = case.is_json_too.then_some((case, Form::Json));
        [Some((case, Form::Pickle)), json].into_iter().flatten()
    };
    CASES.iter().flat_map(forms).filter(|(case, form)| is_asked_for("CASES", &name(case, *form)))
}

fn name(case: &Case, form: Form) -> String {
    let ending = if form == Form::Pickle { "pickle" } else { "json" };
    format!("{}.{ending}", case.name)
}

fn write(case: &Case, form: Form, n_bytes: usize, path: &Path) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    case.write(form, n_bytes, &mut out);
    out.flush().unwrap();
}

/// A file of the corpus on the disk.
struct Written {
    name: String,
    form: Form,
}

#[cfg(target_os = "linux")]
#[test]
fn every_command_takes_every_hostile_file_in_proportion() {
    // A process begins with the peak of memory of the one that starts it, so other tests must not be in it.
    let name = "every_command_takes_every_hostile_file_in_proportion";
    own_process::run(module_path!(), name, LONGEST, every_command_on_every_file);
}

#[cfg(target_os = "linux")]
fn every_command_on_every_file() {
    let n_bytes = variable("BYTES", N_BYTES);
    let kept = env::var_os("MEMREEL_HOSTILE_KEEP").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let all: Vec<Written> = files()
        .map(|(case, form)| {
            let name = name(case, form);
            write(case, form, n_bytes, &folder.join(&name));
            Written { name, form }
        })
        .collect();
    if kept.is_some() {
        return;
    }
    let corpus = Corpus {
        folder,
        all,
        program: crate::repository("")
            .join(variable("PROGRAM", PathBuf::from(env!("CARGO_BIN_EXE_memreel")))),
        // Unoptimised programs are slow, other tests run at the same time, and address space is not resident memory.
        limits: Limits { seconds: variable("SECONDS", 60.0), megabytes: variable("MEGABYTES", 1000) },
        is_quick: n_bytes == N_BYTES,
    };
    if let Some(path) = env::var_os("MEMREEL_HOSTILE_TABLE") {
        return corpus.measure(&mut File::create(path).unwrap());
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let commands: Vec<_> = commands().collect();
    thread::scope(|threads| {
        for _ in 0..thread::available_parallelism().map_or(2, |n| n.get()) {
            threads.spawn(|| {
                while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failures.lock().unwrap().extend(corpus.check(command));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The time after which a test of this file hangs.
#[cfg(target_os = "linux")]
const LONGEST: Duration = Duration::from_secs(3600);

/// The length of the larger files, in bytes, and of the files that they are compared with.
const LARGER: [usize; 2] = [200_000, 50_000];

/// The processor time that a larger file may always take, in seconds.
const FREE_SECONDS: f64 = 1.0;

/// The most times the processor time of a file that is a quarter as long. In proportion it is 4, and 16 if each record
/// is compared with each.
const MOST_TIMES: f64 = 10.0;

#[cfg(target_os = "linux")]
#[test]
fn larger_files_take_time_and_memory_in_proportion() {
    // A process begins with the peak of memory of the one that starts it, so other tests must not be in it.
    let name = "larger_files_take_time_and_memory_in_proportion";
    own_process::run(module_path!(), name, LONGEST, every_larger_file);
}

#[cfg(target_os = "linux")]
fn every_larger_file() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<_> = files().collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        for _ in 0..thread::available_parallelism().map_or(2, |n| n.get()) {
            threads.spawn(|| {
                while let Some((case, form)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failures.lock().unwrap().extend(out_of_proportion(case, *form, folder.path()));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Runs commands on a larger file, and where that takes long, on a smaller one too; returns what went wrong.
fn out_of_proportion(case: &'static Case, form: Form, folder: &Path) -> Vec<String> {
    let [larger, smaller] = LARGER.map(|n_bytes| {
        let name = format!("{n_bytes}-{}", name(case, form));
        write(case, form, n_bytes, &folder.join(&name));
        Corpus {
            folder,
            all: vec![Written { name, form }],
            program: env!("CARGO_BIN_EXE_memreel").into(),
            limits: Limits { seconds: 60.0, megabytes: 1000 },
            is_quick: true,
        }
    });
    let commands: [&[&str]; 3] =
        [&["summary", FILE], &["top", "--tree", "--json", FILE], &["fix", "-o", OUT, FILE]];
    // Every other question is asked of the same snapshot.
    let n_commands = if form == Form::Json { 1 } else { commands.len() };
    let fault_of = |command: &&[&str]| {
        let run = |corpus: &Corpus<'_>| corpus.run(command, &[&corpus.all[0]]).0;
        let used = run(&larger);
        let fault = fault(&used, 1, larger.n_bytes(&larger.all))
            .or_else(|| too_long(&used, || [&larger, &smaller].map(|corpus| run(corpus).cpu_seconds)));
        Some(format!("{}: {}: {}", larger.all[0].name, command.join(" "), fault?))
    };
    commands[..n_commands].iter().filter_map(fault_of).collect()
}

/// Returns what is wrong with the processor time of a run on the larger of two files; `again` takes that of both.
fn too_long(used: &Used, mut again: impl FnMut() -> [f64; 2]) -> Option<String> {
    if used.cpu_seconds < FREE_SECONDS {
        return None;
    }
    // Other work on the machine makes a run longer, never shorter.
    let (one, other) = (again(), again());
    let [long, short] = [0, 1].map(|size| one[size].min(other[size]));
    (long > FREE_SECONDS.max(MOST_TIMES * short))
        .then(|| format!("{long:.2} s of processor time, and {short:.2} s for a quarter of the file"))
}

fn commands() -> impl Iterator<Item = &'static [&'static str]> {
    COMMANDS.iter().map(Vec::as_slice).filter(|command| is_asked_for("COMMANDS", &command.join(" ")))
}

/// The files, and how the program is run on them.
struct Corpus<'a> {
    folder: &'a Path,
    all: Vec<Written>,
    program: PathBuf,
    limits: Limits,
    /// Whether commands of one file have only some of the files.
    is_quick: bool,
}

impl Corpus<'_> {
    /// Runs one command on files; returns what it used and the bytes that it wrote into files.
    fn run(&self, command: &[&str], files: &[&Written]) -> (Used, u64) {
        let out = tempfile::tempdir_in(self.folder).unwrap();
        let out_name = out.path().to_str().unwrap();
        let mut arguments: Vec<String> = Vec::new();
        for argument in command {
            match (*argument, argument.strip_prefix(OUT)) {
                (FILE, _) => arguments.extend(files.iter().map(|file| file.name.clone())),
                (_, Some(rest)) => arguments.push(format!("{out_name}{rest}")),
                (other, None) => arguments.push(other.to_owned()),
            }
        }
        let used = run(&self.program, &arguments, self.folder, self.limits);
        let n_bytes = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let n_written = fs::read_dir(&out).unwrap().map(|entry| n_bytes(entry.unwrap().path())).sum();
        (used, n_written)
    }

    /// Runs one command on all files, on many at once where it takes many; returns what went wrong.
    fn check(&self, command: &[&str]) -> Vec<String> {
        let takes_json = JSON_TOO.contains(&command[0]);
        let is_asked = |file: &&Written| file.form == Form::Pickle || takes_json;
        let mut files: Vec<&Written> = self.all.iter().filter(is_asked).collect();
        let n_at_once = if takes_one(command) { 1 } else { 20 };
        if n_at_once == 1 && self.is_quick {
            // Each file goes to some of these commands.
            let first = command.join(" ").len() % N_SHARES;
            files = files.into_iter().skip(first).step_by(N_SHARES).collect();
        }
        let mut failures = Vec::new();
        for files in files.chunks(n_at_once) {
            let each = |file: &&Written| {
                let (used, _) = self.run(command, &[file]);
                let fault = fault(&used, 1, self.n_bytes([*file]))?;
                Some(format!("{}: {}: {fault}: {}", file.name, command.join(" "), used.message))
            };
            if fault(&self.run(command, files).0, files.len(), self.n_bytes(files.iter().copied())).is_some()
            {
                failures.extend(files.iter().filter_map(each));
            }
        }
        failures
    }

    /// Returns the length of files, all together.
    fn n_bytes<'f>(&self, files: impl IntoIterator<Item = &'f Written>) -> u64 {
        files.into_iter().map(|file| fs::metadata(self.folder.join(&file.name)).unwrap().len()).sum()
    }

    /// Prints a line for each command and file, one after the other.
    fn measure(&self, table: &mut File) {
        for file in &self.all {
            for command in commands() {
                let (used, n_written) = self.run(command, &[file]);
                let path = self.folder.join(&file.name);
                writeln!(table, "{}", line(&file.name, &path, &command.join(" "), &used, n_written)).unwrap();
            }
        }
    }
}

/// The resident memory that a run may always have, in bytes, and for each byte of its files.
const MEMORY: [u64; 2] = [64_000_000, 4];

/// Returns what is wrong with a run: a file may be refused, but nothing crashes, nothing takes for ever, and the memory
/// is in proportion to the files.
fn fault(used: &Used, n_files: usize, n_bytes: u64) -> Option<String> {
    if used.is_late {
        return Some("too slow".to_owned());
    }
    match used.status.code() {
        None => Some(used.status.to_string()),
        Some(101) => Some("panicked".to_owned()),
        Some(code) if code > 4 => Some(format!("exit status {code}")),
        _ if used.n_message_bytes > MAX_MESSAGE_BYTES * n_files as u64 => {
            Some(format!("a message of {} bytes", used.n_message_bytes))
        }
        _ if used.peak_rss_bytes > MEMORY[0] + MEMORY[1] * n_bytes => {
            Some(format!("{} bytes of memory for a file of {n_bytes}", used.peak_rss_bytes))
        }
        _ => None,
    }
}

/// Returns a line of the table.
fn line(file: &str, path: &Path, command: &str, used: &Used, n_written: u64) -> String {
    let status = match (used.is_late, used.status.code()) {
        (true, _) => "late".to_owned(),
        (_, Some(code)) => code.to_string(),
        _ => used.status.to_string(),
    };
    serde_json::json!({
        "file": file,
        "file_bytes": fs::metadata(path).unwrap().len(),
        "command": command,
        "seconds": (used.seconds * 1000.0).round() / 1000.0,
        "cpu_seconds": (used.cpu_seconds * 1000.0).round() / 1000.0,
        "peak_rss_mb": (used.peak_rss_bytes as f64 / 1e5).round() / 10.0,
        "output_bytes": used.n_printed + n_written,
        "message_bytes": used.n_message_bytes,
        "status": status,
    })
    .to_string()
}
