//! Explains a failed request that is known only from a message in a log, as far as the message has the figures.

mod advice;
mod causes;
mod figures;
mod parts;
mod record;

use super::{OomReport, report::verdict};
use crate::{
    analysis::{Call, Releases, SettingsReader, Totals, is_own},
    history::Moment,
    log::{LoggedCall, Message, Program},
    model::Frame,
    words::{DeviceId, PoolId, StreamId},
};

use parts::Parts;

/// A failed request by its message in a log, explained in the words of [`Explanation`](super::Explanation).
///
/// ```
/// use memreel_snapshot::{analysis::oom::LoggedOom, log::Messages};
///
/// let log = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9.68 GiB of which 1.00 GiB is \
///     free. Of the allocated memory 6.00 GiB is allocated by PyTorch, and 2.50 GiB is reserved by PyTorch but unallocated.";
/// let message = Messages::read(log.as_bytes(), &|_| ())?.last.unwrap();
/// assert_eq!(LoggedOom::new(&message).causes()[0].kind.name(), "fragmented");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LoggedOom<'m> {
    message: &'m Message,
    parts: Parts,
    /// The request with the figures of the message; `None` if it lacks one that decides.
    report: Option<OomReport>,
    reader: SettingsReader,
}

impl<'m> LoggedOom<'m> {
    /// Explains a message.
    #[must_use]
    pub fn new(message: &'m Message) -> LoggedOom<'m> {
        LoggedOom {
            message,
            parts: Parts::of(message),
            report: report(message),
            reader: settings_reader(message),
        }
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &'m Message {
        self.message
    }

    /// Returns the calls of the traceback before the message that show who requested: the innermost, and the first `n`
    /// in the program's own files; empty without a traceback.
    #[must_use]
    pub fn asked_by(&self, n: usize) -> Vec<String> {
        let frames: Vec<Frame> = self.message.calls.iter().map(frame).collect();
        let mut own = frames.iter().skip(1).filter(|frame| is_own(frame));
        let calls = frames.first().into_iter().chain(own.by_ref().take(n));
        calls.map(|frame| Call(frame).to_string()).collect()
    }
}

fn frame(call: &LoggedCall) -> Frame {
    let LoggedCall { name, filename, line } = call;
    Frame { name: name.as_str().into(), filename: filename.as_str().into(), line: *line, ..Frame::default() }
}

/// Returns what is known of the PyTorch that printed a message, and thus of the settings that it reads.
fn settings_reader(message: &Message) -> SettingsReader {
    let is_cuda = matches!(message.accelerator.as_deref(), Some("CUDA" | "HIP"));
    match (message.program, message.releases) {
        (Program::Memreel, _) => SettingsReader::Memreel,
        (Program::Torch, Some((first, last))) if is_cuda => {
            SettingsReader::Torch { releases: Releases { first, last }, is_windows: false }
        }
        (Program::Torch, None) if is_cuda => SettingsReader::UnknownTorch,
        _ => SettingsReader::Other(None),
    }
}

/// Returns the report of a failed request that is known from a message. The message does not name the stream and pool
/// of its free memory, so it counts as usable; that of private pools counts as elsewhere.
fn report(message: &Message) -> Option<OomReport> {
    let (device_bytes, free_here, elsewhere, reserved, total) = match message.program {
        Program::Torch | Program::Memreel => {
            let free_here = message.unallocated_bytes?;
            // If a message lost what the device has free, the rest may decide.
            let is_decided = free_here >= message.requested_bytes;
            let free = message.free_bytes.or(is_decided.then_some(0))?;
            let elsewhere = message.private_pool_bytes.unwrap_or(0);
            let total = message.free_bytes.and(message.capacity_bytes);
            (free, free_here, elsewhere, message.reserved_bytes()?, total)
        }
        Program::Xla | Program::TensorFlow => {
            let limit = message.limit_bytes?;
            let free = limit.saturating_sub(message.allocated_bytes?);
            (0, free, 0, limit, Some(limit))
        }
        _ => return None,
    };
    let allocated_bytes = message.allocated_bytes.unwrap_or(0).saturating_sub(elsewhere);
    let mut report = OomReport {
        entry: 0,
        is_last: true,
        n_ooms: 1,
        requested_bytes: message.requested_bytes,
        segment_bytes: message.requested_bytes,
        is_expandable: false,
        has_max_split: None,
        pool: Some(PoolId::DEFAULT),
        device_free_bytes: device_bytes,
        device_total_bytes: total,
        stream: StreamId::DEFAULT,
        stack: None,
        totals: Totals {
            moment: Moment::START,
            allocated_bytes,
            active_bytes: allocated_bytes,
            rounded_bytes: allocated_bytes,
            reserved_bytes: reserved,
            n_blocks: 0,
        },
        pending_bytes: 0,
        n_pending: 0,
        free_here_bytes: free_here,
        largest_free_bytes: 0,
        is_freed_late: false,
        pool_slack_bytes: 0,
        free_elsewhere_bytes: elsewhere,
        free_pages_bytes: 0,
        reserved_address_bytes: None,
        verdict: super::Verdict::Full,
    };
    report.verdict = verdict(&report);
    Some(report)
}

impl LoggedOom<'_> {
    /// Returns the device that the message names.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.message.device.map(|device| DeviceId(device.into()))
    }
}
