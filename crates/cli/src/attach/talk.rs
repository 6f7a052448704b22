//! The protocol between the process and `memreel attach`: lines of JSON, one byte, and the snapshot.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{
    end_requests::EndRequests,
    target::{Target, refused},
};
use crate::{
    failure::Failure,
    text::{Bytes, clean},
};

/// The time between two checks of the clock, the signals and the process.
const LOOK: Duration = Duration::from_millis(50);

/// The longest line; the process controls what is read.
const MAX_LINE: usize = 1 << 20;

/// What follows a complete snapshot.
const WHOLE: &[u8] = b"whole\n";

/// The first line.
#[derive(Debug, Deserialize)]
pub(super) struct Begun {
    #[serde(default)]
    refused: Option<String>,
    /// `ours`, `theirs`, or `waits`: for the first use of CUDA.
    #[serde(default)]
    pub(super) history: String,
    #[serde(default)]
    pub(super) torch: String,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
}

/// The line before the snapshot.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Ended {
    /// `asked` or `exit`.
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// Why there is no snapshot.
    #[serde(default)]
    pub(super) failed: Option<String>,
    /// The events in the snapshot; none if there is no snapshot.
    #[serde(default)]
    pub(super) n_events: Option<u64>,
    /// What the history is now.
    #[serde(default)]
    pub(super) history: String,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
}

/// What PyTorch holds on a device, and what the device reports.
#[derive(Debug, Deserialize)]
pub(super) struct Device {
    pub(super) device: u32,
    pub(super) allocated_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) used_bytes: u64,
}

/// A conversation with a process.
#[derive(Debug)]
pub(super) struct Talk<'a> {
    target: &'a Target,
    stream: BufReader<UnixStream>,
}

impl<'a> Talk<'a> {
    pub(super) fn with(target: &'a Target, stream: UnixStream) -> Result<Talk<'a>, Failure> {
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Talk { target, stream: BufReader::new(stream) })
    }

    /// Waits until the history is on.
    pub(super) fn begun(&mut self, asked: &EndRequests) -> Result<Begun, Failure> {
        let name = self.target.name();
        let begun: Begun = self.line(|| match asked.times() {
            0 => Ok(()),
            _ => Err(refused(format!("{name} had not started to record when you stopped it"))),
        })?;
        match &begun.refused {
            Some(why) => Err(Failure::usage(format!("{}: {}", self.target.name(), clean(why)))),
            None => Ok(begun),
        }
    }

    /// Waits for the time limit, a signal, or the end of the process. Returns the result, and how long recording took.
    pub(super) fn ended(
        &mut self,
        time: Option<Duration>,
        asked: &EndRequests,
    ) -> Result<(Ended, Duration), Failure> {
        let begun = Instant::now();
        let (mut order, name) = (Some(self.stream.get_ref().try_clone()?), self.target.name());
        let mut length = None;
        let ended = self.line(|| {
            let is_due = time.is_some_and(|time| begun.elapsed() >= time) || asked.times() > 0;
            if is_due && let Some(mut stream) = order.take() {
                length = Some(begun.elapsed());
                // A process that has ended has reported that.
                let _ = stream.write_all(b"w");
            }
            if asked.times() > 1 { Err(unwanted(&name)) } else { Ok(()) }
        })?;
        Ok((ended, length.unwrap_or_else(|| begun.elapsed())))
    }

    /// Receives the snapshot, of at most `max_bytes`.
    pub(super) fn snapshot(
        &mut self,
        file: &mut File,
        max_bytes: u64,
        asked: &EndRequests,
    ) -> Result<(), Failure> {
        let (mut buffer, asked_before, name) = (vec![0; 1 << 16], asked.times(), self.target.name());
        let mut left = max_bytes.saturating_add(WHOLE.len() as u64);
        loop {
            if asked.times() > asked_before.max(1) {
                return Err(unwanted(&name));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_bytes) => {
                    left = left.checked_sub(n_bytes as u64).ok_or_else(|| {
                        let most = Bytes(max_bytes);
                        refused(format!(
                            "{name}: its snapshot is larger than {most}; nothing was written. Raise \
                             --max-size, or use a smaller --ring"
                        ))
                    })?;
                    file.write_all(&buffer[..n_bytes]).map_err(|error| {
                        refused(format!("{name}: the snapshot cannot be written: {error}"))
                    })?;
                }
                Err(error) if is_pause(&error) && self.target.is_running() => {}
                Err(_) => break,
            }
        }
        let cut = || refused(format!("{name}: its snapshot was cut off; nothing was written"));
        let n_bytes = file.stream_position()?.checked_sub(WHOLE.len() as u64).ok_or_else(cut)?;
        let mut end = Vec::new();
        file.seek(SeekFrom::Start(n_bytes))?;
        file.read_to_end(&mut end)?;
        if end != WHOLE {
            return Err(cut());
        }
        file.set_len(n_bytes)?;
        Ok(())
    }

    /// Reads a line, and checks each time whether to continue.
    fn line<T: DeserializeOwned>(
        &mut self,
        mut go_on: impl FnMut() -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        let mut line = Vec::new();
        loop {
            go_on()?;
            // What is there, so that a line without an end does not keep this from looking.
            let there = self.stream.fill_buf().map(|there| there.len().min(MAX_LINE - line.len()) as u64);
            match there.and_then(|n_bytes| self.stream.by_ref().take(n_bytes).read_until(b'\n', &mut line)) {
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(1..) => {}
                Err(error) if is_pause(&error) && self.target.is_running() => {}
                _ => return Err(self.gone()),
            }
        }
        serde_json::from_slice(&line)
            .map_err(|error| refused(format!("{}: cannot parse its answer: {error}", self.target.name())))
    }

    fn gone(&self) -> Failure {
        // A process that ends closes its files first.
        let begun = Instant::now();
        while self.target.is_running() && begun.elapsed() < Duration::from_secs(1) {
            thread::sleep(LOOK);
        }
        let how = if self.target.is_running() { "now runs another program" } else { "has ended" };
        refused(format!(
            "{} {how}, without a snapshot: SIGKILL, os._exit and exec leave no time for one",
            self.target.name()
        ))
    }
}

/// Returns that the user ended it without a snapshot.
fn unwanted(name: &str) -> Failure {
    refused(format!("{name}: no snapshot is written, as requested; its history is turned off again"))
}

/// Returns whether nothing came for the time between two checks.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
