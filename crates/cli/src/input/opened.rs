//! Opens snapshots named on the command line: files, pipes and standard input.

#![forbid(unsafe_code)]

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    error::Error as _,
    io::{self, ErrorKind, Read},
    path::Path,
    sync::Arc,
};

use memreel::Recovered;
use memreel_snapshot::{
    DeviceId, Error, Snapshot,
    analysis::{Releases, SettingsReader, devices},
    model::Segment,
    pickle::{self, Inspection},
    place::{open_plain, open_plain_or_pipe},
    profile,
    validate::Finding,
    words::Action,
};
use serde_json::error::Category;

use crate::{
    exit::Exit,
    failure::Failure,
    options::Devices,
    text::{ShownPath, clean},
};

/// A snapshot, with its name in messages.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    /// Whether it came from standard input, so that its name is not a file's.
    pub(crate) is_stdin: bool,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Whether it comes from a tape that a program is still writing.
    pub(crate) is_growing: bool,
    /// The bytes of the file, or of what came from a pipe.
    pub(crate) n_bytes: u64,
    /// The indexes of each device's segments, computed at the first use.
    segments: OnceCell<BTreeMap<DeviceId, Vec<usize>>>,
}

impl Opened {
    pub(super) fn new(path: &Path, snapshot: Arc<Snapshot>) -> Opened {
        Opened {
            name: name(path),
            is_stdin: is_stdin(path),
            snapshot,
            is_growing: false,
            n_bytes: path.metadata().map_or(0, |found| found.len()),
            segments: OnceCell::new(),
        }
    }

    /// Returns a text of the allocator's settings.
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        let value = self.snapshot.allocator_settings()?.get(key)?;
        value.as_text().map(|text| &**text)
    }

    /// Returns the program that wrote the file, as far as the file shows it: `of memreel 0.1.0`, `in the
    /// format of PyTorch 2.5 to 2.7`.
    pub(crate) fn writer(&self) -> String {
        match (
            self.setting("memreel_version"),
            SettingsReader::of(&self.snapshot),
            Releases::of(&self.snapshot),
        ) {
            (Some(version), ..) if !version.is_empty() => format!("of memreel {}", clean(version)),
            (_, SettingsReader::Other(Some(writer)), _) => format!("of {writer}, in PyTorch's format"),
            (_, _, Some(releases)) => format!("in the format of {releases}"),
            (_, _, None) => "in PyTorch's format".to_owned(),
        }
    }

    /// Returns a snapshot derived from this one, under another name.
    pub(crate) fn changed(&self, snapshot: Snapshot, name: &str) -> Opened {
        Opened {
            name: name.to_owned(),
            is_stdin: self.is_stdin,
            ..Opened::new(Path::new(name), Arc::new(snapshot))
        }
    }

    /// Returns the devices of `--device`: the one that was named, or all that have events or segments.
    pub(crate) fn devices(&self, which: Devices) -> Result<Vec<DeviceId>, Failure> {
        let found = devices(&self.snapshot);
        let n_traces = self.snapshot.device_traces.len();
        let indices = found.iter().filter_map(|device| device.index());
        let n = indices.map(|index| index + 1).max().unwrap_or(0).max(n_traces);
        let device = match which {
            Devices::All if found.is_empty() => return Ok(vec![DeviceId(0)]),
            Devices::All => return Ok(found),
            Devices::Heap => heap(&self.snapshot, &found)?,
            Devices::One(device) => device,
        };
        let is_empty = || found.is_empty() && device.index().is_some_and(|index| index < n);
        if found.contains(&device) || is_empty() { Ok(vec![device]) } else { Err(unknown(which, &found)) }
    }

    /// Like [`Opened::devices`], those on which a request failed first.
    pub(crate) fn failed_first(&self, which: Devices) -> Result<Vec<DeviceId>, Failure> {
        let has_failed = |device: DeviceId| {
            self.snapshot.trace(device).iter().any(|entry| entry.action == Some(Action::Oom))
        };
        let mut devices = self.devices(which)?;
        devices.sort_by_key(|device| !has_failed(*device));
        Ok(devices)
    }

    /// Returns the segments of a device at the end.
    pub(crate) fn segments(&self, device: DeviceId) -> impl Iterator<Item = &Segment> {
        let (all, host) = (&self.snapshot.segments, &self.snapshot.host_segments);
        let by_device = self.segments.get_or_init(|| {
            let mut by_device = BTreeMap::<DeviceId, Vec<usize>>::new();
            for (at, segment) in all.iter().enumerate() {
                by_device.entry(segment.device).or_default().push(at);
            }
            by_device
        });
        let own = by_device.get(&device).into_iter().flatten().map(|at| &all[*at]);
        own.chain(host.iter().filter(move |_| device == DeviceId::HOST))
    }

    /// Returns the device of `--device`, or `None` for all.
    pub(crate) fn one_device(&self, which: Devices) -> Result<Option<DeviceId>, Failure> {
        match which {
            Devices::All => Ok(None),
            Devices::Heap | Devices::One(_) => Ok(self.devices(which)?.first().copied()),
        }
    }
}

/// Returns the device that is the process's heap; `known` are the devices of the snapshot.
pub(crate) fn heap(snapshot: &Snapshot, known: &[DeviceId]) -> Result<DeviceId, Failure> {
    let heaps: Vec<DeviceId> =
        snapshot.usage().iter().filter(|of| of.is_heap()).map(|of| of.device).collect();
    match heaps[..] {
        [heap] => Ok(heap),
        [] => Err(unknown(Devices::Heap, known)),
        [first, ..] => Err(Failure::usage(format!(
            "there are several heaps, devices {}; name one with --device {first}",
            list(&heaps)
        ))),
    }
}

/// Returns the failure of a question about a device that is not among those with memory.
pub(crate) fn unknown(which: Devices, known: &[DeviceId]) -> Failure {
    let what = if which == Devices::Heap { "heap".to_owned() } else { format!("device {which}") };
    Failure::usage(format!("no {what}; devices with memory: {}", list(known)))
}

/// Returns the numbers of devices in a message: the first of them if there are many.
pub(crate) fn list(devices: &[DeviceId]) -> String {
    const N: usize = 16;
    let known: Vec<String> = devices.iter().take(N).map(ToString::to_string).collect();
    match devices.len() {
        0 => "none".to_owned(),
        n if n > N => format!("{} and {} more", known.join(", "), n - N),
        _ => known.join(", "),
    }
}

/// Returns the name of a file in messages.
pub(crate) fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a snapshot from a file: a pickle, JSON as viewers load it, a tape or a profile.
pub(super) fn load(path: &Path) -> Result<Opened, Failure> {
    if let Some(tape) = recovered(path)? {
        let is_growing = tape.is_running() && !tape.is_closed();
        return Ok(Opened { is_growing, ..Opened::new(path, Arc::new(tape.snapshot())) });
    }
    if let Some(bytes) = read_profile(path)? {
        let snapshot = Arc::new(profile::from_slice(&bytes)?);
        return Ok(Opened::new(path, snapshot));
    }
    match read_unmappable(path)? {
        Some(bytes) => {
            let snapshot = Arc::new(parse(&bytes)?);
            Ok(Opened { n_bytes: bytes.len() as u64, ..Opened::new(path, snapshot) })
        }
        None => Ok(Opened::new(path, Arc::new(pickle::load(path).map_err(unreadable)?))),
    }
}

/// How many bytes at the start of a file are looked at to recognise a profile.
const HEAD_OF_PROFILE: u64 = 4096;

/// Reads a file that is a pprof profile; `None` for other files.
pub(crate) fn read_profile(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let Some(mut file) = (!is_stdin(path)).then(|| open_plain(path).ok()).flatten() else { return Ok(None) };
    let failed = |error: io::Error| Failure::Message(Exit::Unreadable, format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_OF_PROFILE).read_to_end(&mut bytes).map_err(failed)?;
    if !profile::is_profile(&bytes) {
        return Ok(None);
    }
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Reads a tape, and reports on standard error what is missing from it. Returns `None` for other files.
pub(crate) fn recovered(path: &Path) -> Result<Option<Recovered>, Failure> {
    if is_stdin(path) || !Recovered::is_tape(path) {
        return Ok(None);
    }
    let tape = Recovered::read(path).map_err(unreadable)?;
    for problem in tape.problems() {
        eprintln!("memreel: {}: {problem}", ShownPath(path));
    }
    Ok(Some(tape))
}

/// Converts an error of reading into a failure without the path, which the caller puts before the message.
pub(crate) fn unreadable(error: Error) -> Failure {
    match error.source() {
        Some(cause) if error.is_io() => {
            Failure::Message(Exit::Unreadable, format!("cannot be read: {cause}"))
        }
        _ => error.into(),
    }
}

/// Reads what cannot be mapped: standard input, a pipe or JSON. Of a page, the snapshot in it.
///
/// Returns `None` for a pickle in a file, and for a file that cannot be opened: opening it again gives the error.
pub(crate) fn read_unmappable(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let mut bytes = Vec::new();
    let failed = |error: io::Error| Failure::Message(Exit::Unreadable, format!("cannot be read: {error}"));
    if is_stdin(path) {
        io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        return Ok(Some(pickle::out_of_page(bytes)?));
    }
    let Ok(mut file) = open_plain_or_pipe(path) else { return Ok(None) };
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let mut first = [0];
    let n_read = match file.read(&mut first) {
        Ok(n_read) => n_read,
        Err(error) if error.kind() == ErrorKind::Interrupted => 0,
        Err(error) => return Err(failed(error)),
    };
    if is_file && !is_json(&first[..n_read]) {
        return Ok(None);
    }
    bytes.extend_from_slice(&first[..n_read]);
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(pickle::out_of_page(bytes)?))
}

/// The mark with which text files from Windows may start.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns whether bytes start like JSON. None of these bytes is an opcode that can start a pickle.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef))
}

/// Returns whether bytes start like the small baseline of `memreel gate`. Its first key is in no snapshot.
pub(crate) fn is_baseline(bytes: &[u8]) -> bool {
    const KEY: &[u8] = b"\"memreel_baseline\"";
    bytes[..bytes.len().min(64)].windows(KEY.len()).any(|window| window == KEY)
}

/// Reads a snapshot from the bytes of a pickle or of JSON.
pub(crate) fn parse(bytes: &[u8]) -> Result<Snapshot, Failure> {
    if Recovered::is_beginning(bytes) {
        let why = "a tape can only be read from a file; give its path instead of a pipe";
        return Err(Failure::Message(Exit::Unreadable, why.to_owned()));
    }
    if profile::is_profile(bytes) {
        return Ok(profile::from_slice(bytes)?);
    }
    if !is_json(bytes) {
        return Ok(pickle::from_slice(bytes)?);
    }
    let why = |error: serde_json::Error| match error.classify() {
        // The error is memreel's own, about the content and not about a line of the text.
        Category::Data => error.to_string(),
        Category::Eof => format!("not a readable snapshot: the JSON was cut off: {error}"),
        _ => format!("not a readable snapshot: it starts like JSON but is not valid JSON: {error}"),
    };
    if is_baseline(bytes) {
        let why =
            "a baseline of memreel gate, for --baseline; it has no blocks and no events, as a snapshot has";
        return Err(Failure::Message(Exit::Unreadable, why.to_owned()));
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    serde_json::from_slice(text).map_err(|error| Failure::Message(Exit::Unreadable, why(error)))
}

/// The snapshot of a file, or why there is none, and the findings about the file's bytes.
pub(super) type Inspected = (Result<Arc<Snapshot>, String>, Vec<Finding>);

/// Reads a snapshot and checks its bytes. JSON has no findings about its bytes.
///
/// # Errors
/// The file cannot be read.
pub(super) fn inspect(path: &Path) -> Result<Inspected, Failure> {
    if let Some(tape) = recovered(path)? {
        return Ok((Ok(Arc::new(tape.snapshot())), Vec::new()));
    }
    if let Some(bytes) = read_profile(path)? {
        let made = profile::from_slice(&bytes).map_err(|error| error.to_string());
        return Ok((made.map(Arc::new), Vec::new()));
    }
    let Inspection { snapshot, mut findings, .. } = match read_unmappable(path)? {
        Some(bytes) if is_json(&bytes) => {
            return match parse(&bytes) {
                Ok(snapshot) => Ok((Ok(Arc::new(snapshot)), Vec::new())),
                Err(Failure::Message(_, why)) => Ok((Err(why), Vec::new())),
                Err(failure) => Err(failure),
            };
        }
        Some(bytes) => pickle::inspect_slice(&bytes),
        None => pickle::inspect(path).map_err(unreadable)?,
    };
    let snapshot = snapshot.map_err(|error| error.to_string());
    if let Err(why) = &snapshot {
        findings.retain(|finding| finding.what != *why);
    }
    Ok((snapshot.map(Arc::new), findings))
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
