//! Every command on every file of a hostile corpus: in one process, and some on larger files, each in a process of its own with
//! limits of memory and time.
//!
//! The files are small and the limits generous, so that only what is out of proportion fails:
//!
//! ```text
//! cargo test -p memreel-cli --test program hostile
//! MEMREEL_HOSTILE_BYTES=10000000                                 longer files of the first test
//! MEMREEL_HOSTILE_SECONDS=30 MEMREEL_HOSTILE_MEGABYTES=4000    other limits of one run
//! MEMREEL_HOSTILE_CASES=keys,json MEMREEL_HOSTILE_COMMANDS=top   only files and commands with these texts
//! MEMREEL_HOSTILE_KEEP=folder                                    write the corpus there and run nothing
//! ```

pub(crate) mod commands;
#[cfg(target_os = "linux")]
mod comparisons;
#[cfg(target_os = "linux")]
mod limited;

use std::{
    env, fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use memreel_cli::{Answer, Refusal, ask};
use memreel_testing::hostile::{CASES, Case, Form, check_all};

#[cfg(target_os = "linux")]
use crate::own_process;
use commands::{COMMANDS, FILE, JSON_TOO, OUT};
#[cfg(target_os = "linux")]
use limited::{Limits, Used, run};

/// The length of the files that every command reads, in bytes.
const N_BYTES: usize = 8_000;

/// The longest message about one file: names from files are quoted in part.
const MAX_MESSAGE_BYTES: u64 = 4 * 1024;

/// The highest exit status of a command that works.
const MAX_STATUS: i32 = 4;

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
fn files() -> Vec<(&'static Case, Form)> {
    let forms = |case: &'static Case| case.forms().iter().map(move |form| (case, *form));
    CASES
        .iter()
        .flat_map(forms)
        .filter(|(case, form)| is_asked_for("CASES", &case.file_name(*form)))
        .collect()
}

fn write(case: &Case, form: Form, n_bytes: usize, folder: &Path) -> PathBuf {
    let path = folder.join(case.file_name(form));
    fs::write(&path, case.of_bytes(form, n_bytes)).unwrap();
    path
}

/// Returns the words of a command that reads a file and writes into a folder.
pub(crate) fn words(command: &[&str], file: &Path, out: &Path) -> Vec<String> {
    let word = |word: &&str| match (*word, word.strip_prefix(OUT)) {
        (FILE, _) => file.display().to_string(),
        (_, Some(rest)) => format!("{}{rest}", out.display()),
        (other, None) => other.to_owned(),
    };
    command.iter().map(word).collect()
}

#[test]
fn every_command_answers_about_every_hostile_file() {
    let kept = env::var_os("MEMREEL_HOSTILE_KEEP").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let folder = kept.as_deref().unwrap_or(temporary.path());
    check_all(&files(), |(case, form)| {
        let file = write(case, *form, variable("BYTES", N_BYTES), folder);
        let takes = |command: &&Vec<&str>| *form == Form::Pickle || JSON_TOO.contains(&command[0]);
        let commands = COMMANDS.iter().filter(|command| kept.is_none() && takes(command));
        let asked = commands.filter(|command| is_asked_for("COMMANDS", &command.join(" ")));
        asked.filter_map(|command| fault_of_answer(command, &file, folder)).collect()
    });
}

/// Asks a command about a file; returns what is wrong with the answer. A file may be refused, but nothing panics or takes for ever.
fn fault_of_answer(command: &[&str], file: &Path, folder: &Path) -> Option<String> {
    let out = tempfile::tempdir_in(folder).unwrap();
    let words = words(command, file, out.path());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let start = Instant::now();
    let fault = match catch_unwind(|| ask(&[], &words)) {
        Err(_) => "panicked".to_owned(),
        Ok(Err(Refusal { message, .. })) if message.len() as u64 > MAX_MESSAGE_BYTES => {
            format!("a message of {} bytes", message.len())
        }
        Ok(Ok(Answer { status, .. }) | Err(Refusal { status, .. })) if i32::from(status) > MAX_STATUS => {
            format!("exit status {status}")
        }
        _ if start.elapsed() > Duration::from_secs_f64(variable("SECONDS", 60.0)) => "too slow".to_owned(),
        _ => return None,
    };
    Some(format!("{}: {fault}", words.join(" ")))
}

/// The time after which a test of this file hangs.
#[cfg(target_os = "linux")]
const LONGEST: Duration = Duration::from_secs(3600);

/// The length of the larger files, in bytes, and of the files that they are compared with.
#[cfg(target_os = "linux")]
const LARGER: [usize; 2] = [200_000, 50_000];

/// The processor time that a larger file may always take, in seconds.
#[cfg(target_os = "linux")]
const FREE_SECONDS: f64 = 1.0;

/// The most times the processor time of a file that is a quarter as long. In proportion it is 4, and 16 if each record
/// is compared with each.
#[cfg(target_os = "linux")]
const MOST_TIMES: f64 = 10.0;

#[cfg(target_os = "linux")]
#[test]
fn larger_files_take_time_and_memory_in_proportion() {
    let write_all = |folder: &Path| {
        let folders = LARGER.map(|n_bytes| (n_bytes, folder.join(n_bytes.to_string())));
        folders.iter().for_each(|(_, folder)| fs::create_dir(folder).unwrap());
        check_all(&files(), |(case, form)| {
            folders.iter().for_each(|(n_bytes, folder)| drop(write(case, *form, *n_bytes, folder)));
            Vec::new()
        });
    };
    let name = "larger_files_take_time_and_memory_in_proportion";
    beside_files(module_path!(), name, write_all, || {
        check_all(&files(), |(case, form)| out_of_proportion(case, *form));
    });
}

/// Writes files into a folder, and runs a test there in a process of its own: a process begins with the peak of memory of the one
/// that starts it, so neither what makes the files nor other tests may be in that.
#[cfg(target_os = "linux")]
fn beside_files(module: &str, name: &str, write: impl FnOnce(&Path), test: impl FnOnce()) {
    const WRITTEN: &str = "MEMREEL_HOSTILE_WRITTEN";
    let folder = tempfile::tempdir().unwrap();
    if env::var_os(WRITTEN).is_none() {
        write(folder.path());
    }
    let ended = own_process::output(module, name, LONGEST, folder.path(), &[(WRITTEN, "")], test);
    if let Some((status, printed)) = ended {
        assert!(status.success() && printed.contains("1 passed"), "{status}\n{printed}");
    }
}

/// Runs commands on a larger file, and where that takes long, on a smaller one too; returns what went wrong.
#[cfg(target_os = "linux")]
fn out_of_proportion(case: &Case, form: Form) -> Vec<String> {
    let [larger, smaller] = LARGER.map(|n_bytes| Path::new(&n_bytes.to_string()).join(case.file_name(form)));
    let commands: [&[&str]; 3] =
        [&["summary", FILE], &["top", "--tree", "--json", FILE], &["fix", "-o", OUT, FILE]];
    // Every other question is asked of the same snapshot.
    let n_commands = if form == Form::Json { 1 } else { commands.len() };
    let fault_of = |command: &&[&str]| {
        let run = |path: &Path| {
            let out = tempfile::tempdir().unwrap();
            run(&words(command, path, out.path()), Path::new("."))
        };
        let used = run(&larger);
        let fault = fault(&used, 1, fs::metadata(&larger).unwrap().len())
            .or_else(|| too_long(&used, || [&larger, &smaller].map(|path| run(path).cpu_seconds)));
        Some(format!("{}: {}: {}: {}", larger.display(), command.join(" "), fault?, used.message))
    };
    commands[..n_commands].iter().filter_map(fault_of).collect()
}

/// Returns what is wrong with the processor time of a run on the larger of two files; `again` takes that of both.
#[cfg(target_os = "linux")]
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

/// What one run may use. Unoptimised programs are slow, other tests run at the same time, and address space is not resident memory.
#[cfg(target_os = "linux")]
fn limits() -> Limits {
    Limits { seconds: variable("SECONDS", 60.0), megabytes: variable("MEGABYTES", 1000) }
}

/// The resident memory that a run may always have, in bytes, and for each byte of its files.
#[cfg(target_os = "linux")]
const MEMORY: [u64; 2] = [64_000_000, 4];

/// Returns what is wrong with a run: a file may be refused, but nothing crashes, nothing takes for ever, and the memory
/// is in proportion to the files.
#[cfg(target_os = "linux")]
fn fault(used: &Used, n_files: usize, n_bytes: u64) -> Option<String> {
    if used.is_late {
        return Some("too slow".to_owned());
    }
    match used.status.code() {
        None => Some(used.status.to_string()),
        Some(101) => Some("panicked".to_owned()),
        Some(code) if code > MAX_STATUS => Some(format!("exit status {code}")),
        _ if used.n_message_bytes > MAX_MESSAGE_BYTES * n_files as u64 => {
            Some(format!("a message of {} bytes", used.n_message_bytes))
        }
        _ if used.peak_rss_bytes > MEMORY[0] + MEMORY[1] * n_bytes => {
            Some(format!("{} bytes of memory for a file of {n_bytes}", used.peak_rss_bytes))
        }
        _ => None,
    }
}
