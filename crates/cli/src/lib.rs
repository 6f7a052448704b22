//! The program `memreel` as a library: [`run`] is the program, [`ask`] runs one of its commands on snapshots in memory.
//!
//! It is for packages that ship the program in another form, such as the one for Python; these use [`run_as`]. Programs
//! that ask about snapshots use `memreel-answers` or `memreel`, whose results are data rather than text.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "commands that need Linux use them")
)]

#[cfg(target_os = "linux")]
mod attach;
mod commands;
mod dispatch;
mod exit;
mod failure;
mod findings;
mod input;
mod options;
mod program;
mod question;
#[cfg(target_os = "linux")]
mod record;
mod row;
#[cfg(target_os = "linux")]
mod run;
mod serve;
#[cfg(target_os = "linux")]
mod temporary;
mod text;
#[cfg(target_os = "linux")]
mod watch;

use std::{
    env,
    ffi::OsString,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use clap::error::{ContextKind, ContextValue};

use dispatch::parsed;
use exit::Exit;
use failure::Failure;
use input::{Opener, log_file};
use memreel_snapshot::place::keep_to;
use question::answered;
use text::{Page, bytes, share, situations::SITUATIONS};

pub use input::NamedSnapshot;
pub use question::{Answer, Refusal};
pub use serve::view::{View, page_with};

/// Keeps what the program has from its caller, for the program that `memreel record` starts. It is called before `main`.
#[cfg(target_os = "linux")]
pub extern "C" fn at_start() {
    let _ = memreel::integrate::Inherited::get();
}

/// Runs the program: `words` is its command line, starting with the name of the program. Returns its exit status.
///
/// `memreel record` does not return: it ends the process as the recorded program ended.
#[must_use]
pub fn run(words: Vec<OsString>) -> u8 {
    let program = env::current_exe().map_or_else(|_| "memreel".into(), OsString::from);
    run_as(words, vec![program])
}

/// Runs the program like [`run`], for a package that ships it in another form: `program` has the words that start it, before
/// its command. `memreel mcp` starts it for each question.
#[must_use]
pub fn run_as(words: Vec<OsString>, program: Vec<OsString>) -> u8 {
    if words.len() <= 1 {
        let _ = io::stdout().write_all(SITUATIONS.as_bytes());
        return Exit::Fine as u8;
    }
    #[cfg(target_os = "linux")]
    temporary::choose();
    if let Some(roots) = env::var_os("MEMREEL_ROOTS") {
        keep_to(env::split_paths(&roots).collect());
    }
    let program = program::program(program);
    let command = match parsed(words, &program) {
        Ok(command) => command,
        Err(error) => return refuse(&error),
    };
    let mut out = Page::standard();
    let done = command(&program, &mut out).or_else(Failure::report);
    let flushed = done.and_then(|exit| out.flush().map(|()| exit));
    flushed.unwrap_or_else(unwritten) as u8
}

/// The width of a text that a program keeps.
const OF_TEXT: usize = 100;

/// Runs a command of the program on in-memory snapshots: `words` are those after `memreel`, with the names of the
/// snapshots in place of files.
///
/// # Errors
/// The words are not a command, or the command has no answer. The message does not start with `memreel:`.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use memreel_snapshot::Snapshot;
/// use memreel_cli::{NamedSnapshot, ask};
///
/// let mine = NamedSnapshot { name: "mine".to_owned(), snapshot: Arc::new(Snapshot::default()) };
/// let answer = ask(&[mine], &["top", "mine"]).unwrap();
/// assert_eq!(answer.status, 0);
/// ```
pub fn ask(snapshots: &[NamedSnapshot], words: &[&str]) -> Result<Answer, Refusal> {
    answered(program::program, snapshots.to_vec(), words, Some(OF_TEXT))
}

/// Reads a snapshot as the commands do: a pickle, JSON as viewers load it, or a tape.
///
/// # Errors
/// The file cannot be read, or is not a snapshot.
pub fn load(path: &Path) -> Result<NamedSnapshot, Refusal> {
    let opened = Opener::Files.open(path).map_err(|failure| failure.of_file(&input::name(path)))?;
    Ok(NamedSnapshot { name: opened.name, snapshot: opened.snapshot })
}

/// Returns the view of files, none of which is read yet: the answers of `memreel view` without its server.
#[must_use]
pub fn view(paths: &[PathBuf]) -> View {
    View::open(paths, program::program)
}

/// Returns whether a file is a log with the message of a request that failed, which `memreel oom` explains.
#[must_use]
pub fn is_log(path: &Path) -> bool {
    !input::is_stdin(path)
        && log_file::read(path, &Opener::Files)
            .is_ok_and(|messages| messages.is_some_and(|all| all.last.is_some()))
}

/// Reads a size as the options of the program do, 0 included: `24GiB`, `1.5 GiB`, `512M` and `1000000` count in 1024s, `2 GB`
/// in 1000s.
///
/// # Errors
/// The text is not a size.
pub fn parse_bytes(text: &str) -> Result<u64, Refusal> {
    bytes::parse_or_zero(text).map_err(|message| Refusal { status: Exit::Usage as u8, message })
}

/// Reads a share as the options of the program do: `2%` and `2` are two percent.
///
/// # Errors
/// The text is not a share.
pub fn parse_percent(text: &str) -> Result<f64, Refusal> {
    share::parse(text).map_err(|message| Refusal { status: Exit::Usage as u8, message })
}

/// Reports an error in the command line, or prints the help that it asks for. Returns the exit status.
fn refuse(error: &clap::Error) -> u8 {
    let word = error.get(ContextKind::InvalidSubcommand);
    if let Some(ContextValue::String(word)) = word
        && is_file_name(word)
    {
        eprintln!("memreel: cannot find the file {word}");
        return Exit::Unreadable as u8;
    }
    if let Some(ContextValue::String(word)) = word
        && let Some((_, command)) = MEANT.iter().find(|(typed, _)| typed == word)
    {
        eprintln!("memreel: there is no command {word}; use: memreel {command}");
        return Exit::Usage as u8;
    }
    #[cfg(not(feature = "mcp"))]
    if let Some(ContextValue::String(word)) = word
        && word == "mcp"
    {
        eprintln!(
            "memreel: this memreel was built without the server; the Python package has it, or build it with: cargo install \
             --path crates/cli --locked"
        );
        return Exit::Usage as u8;
    }
    // Its reader may have gone.
    let _ = error.print();
    u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8)
}

/// Words that people type for a command, and their meanings.
const MEANT: [(&str, &str); 10] = [
    ("run", "record -- PROGRAM"),
    ("trace-program", "record -- PROGRAM"),
    ("info", "FILE"),
    ("describe", "FILE"),
    ("why", "oom FILE"),
    ("explain", "oom FILE"),
    ("flame", "flamegraph FILE"),
    ("peak", "top FILE"),
    ("tune", "replay --sweep FILE"),
    ("whatif", "replay FILE"),
];

/// Returns whether a word is the name of a file, rather than a misspelt command.
fn is_file_name(word: &str) -> bool {
    Path::new(word).extension().is_some() || word.contains(std::path::is_separator)
}

/// Reports that standard output failed. A closed pipe is not a failure: its reader has read enough.
fn unwritten(error: io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Fine;
    }
    eprintln!("memreel: cannot write: {error}");
    Exit::Unreadable
}
