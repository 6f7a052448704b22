//! Snapshots as the command line names them: files, pipes and standard input, one after the other.

use std::{
    error::Error as _,
    fmt::Display,
    fs::{File, Metadata},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use memreel::{
    DeviceId, Error, Snapshot,
    analysis::state::devices,
    pickle::{self, Inspection},
    validate::Finding,
};

use serde_json::error::Category;

use crate::{
    args::{Devices, Input},
    colour::bold,
    exit::Exit,
    progress::Waiting,
};

/// Why a file has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Told on standard error; the next file may do better.
    Told(Exit, String),
    /// The answer could not be written, so there is nobody to tell the next one to.
    Write(io::Error),
}

impl Failure {
    /// The command asks for what this snapshot does not have.
    pub(crate) fn usage(what: impl Display) -> Failure {
        Failure::Told(Exit::Usage, what.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Write(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = if error.is_history() {
            Exit::Broken
        } else if error.is_invalid_option() || error.is_misuse() {
            Exit::Usage
        } else {
            Exit::Unreadable
        };
        Failure::Told(exit, error.to_string())
    }
}

/// A snapshot with the name that messages call it by.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) snapshot: Snapshot,
}

impl Opened {
    /// The devices asked for: all that have events or segments, or the one that was named.
    pub(crate) fn devices(&self, which: Devices) -> Result<Vec<DeviceId>, Failure> {
        let found = devices(&self.snapshot);
        let n_traces = self.snapshot.device_traces.len();
        let n = found.last().map_or(0, |device| device.index().map_or(0, |index| index + 1)).max(n_traces);
        match which {
            Devices::All if found.is_empty() => Ok(vec![DeviceId(0)]),
            Devices::All => Ok(found),
            Devices::One(device) if usize::from(device) < n => Ok(vec![device.into()]),
            Devices::One(device) => {
                let known: Vec<String> = found.iter().map(ToString::to_string).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(Failure::usage(format!("no device {device}; devices with memory: {known}")))
            }
        }
    }
}

/// The name of a file in messages.
pub(crate) fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a snapshot: a pickle, or the JSON that viewers load.
pub(crate) fn open(path: &Path) -> Result<Opened, Failure> {
    let _waiting = Waiting::new(format!("reading {}", name(path)));
    Ok(Opened { name: name(path), snapshot: load(path)? })
}

/// Reads two snapshots; a failure has the name of its file.
///
/// One after the other: read side by side they took two thirds of the time, and with both files
/// mapped at once half as much memory again.
pub(crate) fn open_both(before: &Path, after: &Path) -> Result<[Opened; 2], Failure> {
    if is_stdin(before) && is_stdin(after) {
        return Err(Failure::usage("standard input is one snapshot; name a file for the other"));
    }
    let named = |path: &Path| {
        open(path).map_err(|failure| match failure {
            Failure::Told(exit, what) => Failure::Told(exit, format!("{}: {what}", name(path))),
            write @ Failure::Write(_) => write,
        })
    };
    Ok([named(before)?, named(after)?])
}

fn load(path: &Path) -> Result<Snapshot, Failure> {
    match piped(path)? {
        Some(bytes) => parse(&bytes),
        None => pickle::load(path).map_err(unread),
    }
}

/// A failure to read, without the path: whoever tells it begins with that.
pub(crate) fn unread(error: Error) -> Failure {
    match error.source() {
        Some(cause) if error.is_io() => Failure::Told(Exit::Unreadable, format!("cannot be read: {cause}")),
        _ => error.into(),
    }
}

/// The bytes of what cannot be mapped: standard input, a pipe, a text. `None` for a file,
/// also for one that cannot be read: whoever opens it next says why.
pub(crate) fn piped(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let mut bytes = Vec::new();
    let told = |error: io::Error| Failure::Told(Exit::Unreadable, format!("cannot be read: {error}"));
    if is_stdin(path) {
        io::stdin().lock().read_to_end(&mut bytes).map_err(told)?;
        return Ok(Some(bytes));
    }
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    let Ok(found) = file.metadata() else { return Ok(None) };
    if !found.is_file() && !is_pipe(&found) {
        return Ok(None);
    }
    let mut first = [0];
    let n_read = match file.read(&mut first) {
        Ok(n_read) => n_read,
        Err(error) if error.kind() == ErrorKind::Interrupted => 0,
        Err(error) => return Err(told(error)),
    };
    if found.is_file() && !is_json(&first[..n_read]) {
        return Ok(None);
    }
    bytes.extend_from_slice(&first[..n_read]);
    file.read_to_end(&mut bytes).map_err(told)?;
    Ok(Some(bytes))
}

/// A pipe ends; other things that are no files (`/dev/zero`) may not.
fn is_pipe(found: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        found.file_type().is_fifo()
    }
    #[cfg(not(unix))]
    false
}

/// How texts from Windows may begin.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// No pickle begins with a brace, a bracket, a space or a mark: those are no opcodes that begin anything.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef))
}

/// A snapshot from a pickle's bytes, or from a text.
pub(crate) fn parse(bytes: &[u8]) -> Result<Snapshot, Failure> {
    if !is_json(bytes) {
        return Ok(pickle::from_slice(bytes)?);
    }
    let why = |error: serde_json::Error| match error.classify() {
        // Its own words, and no line of the text is to blame.
        Category::Data => error.to_string(),
        Category::Eof => format!("not a readable snapshot: the JSON was cut off: {error}"),
        _ => format!("not a readable snapshot: it begins as JSON does and is none: {error}"),
    };
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    serde_json::from_slice(text).map_err(|error| Failure::Told(Exit::Unreadable, why(error)))
}

/// A snapshot, or why there is none, and what else is wrong with the bytes; of a text's nothing is.
///
/// # Errors
/// Only where there are no bytes.
pub(crate) fn inspect(path: &Path) -> Result<(Result<Snapshot, String>, Vec<Finding>), Failure> {
    let _waiting = Waiting::new(format!("reading {}", name(path)));
    let Inspection { snapshot, mut findings, .. } = match piped(path)? {
        Some(bytes) if is_json(&bytes) => {
            return match parse(&bytes) {
                Ok(snapshot) => Ok((Ok(snapshot), Vec::new())),
                Err(Failure::Told(_, why)) => Ok((Err(why), Vec::new())),
                Err(failure) => Err(failure),
            };
        }
        Some(bytes) => pickle::inspect_slice(&bytes),
        None => pickle::inspect(path).map_err(unread)?,
    };
    let snapshot = snapshot.map_err(|error| error.to_string());
    if let Err(why) = &snapshot {
        findings.retain(|finding| finding.what != *why);
    }
    Ok((snapshot, findings))
}

/// Answers for every file; one that fails is told, and the worst of them makes the exit status.
pub(crate) fn each_file(
    files: &[PathBuf],
    mut answer: impl FnMut(&Opened) -> Result<Exit, Failure>,
) -> io::Result<Exit> {
    each_path(files, |path| open(path).and_then(|opened| answer(&opened)))
}

/// As [`each_file`], for whoever opens files another way.
pub(crate) fn each_path(
    files: &[PathBuf],
    mut answer: impl FnMut(&Path) -> Result<Exit, Failure>,
) -> io::Result<Exit> {
    let mut worst = Exit::Fine;
    for path in files {
        let exit = match answer(path) {
            Ok(exit) => exit,
            Err(Failure::Told(exit, what)) => {
                eprintln!("memreel: {}: {what}", name(path));
                exit
            }
            Err(Failure::Write(error)) => return Err(error),
        };
        worst = worst.max(exit);
    }
    Ok(worst)
}

/// Answers for every device of every file, under a heading where there are several.
pub(crate) fn each_device<W: Write>(
    input: &Input,
    out: &mut W,
    mut answer: impl FnMut(&Opened, DeviceId, &mut W) -> Result<Exit, Failure>,
) -> io::Result<Exit> {
    let mut n_answers = 0;
    each_file(&input.files, |opened| {
        let devices = opened.devices(input.device)?;
        let mut worst = Exit::Fine;
        for device in &devices {
            if !input.json && (devices.len() > 1 || input.files.len() > 1) {
                let gap = if n_answers > 0 { "\n" } else { "" };
                let device = if devices.len() > 1 { format!(", device {device}") } else { String::new() };
                let bold = bold();
                writeln!(out, "{gap}{bold}{}{device}{bold:#}", opened.name)?;
            }
            n_answers += 1;
            worst = worst.max(answer(opened, *device, out)?);
        }
        Ok(worst)
    })
}
