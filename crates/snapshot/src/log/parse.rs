//! The text of a message becomes its figures.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    figure::{Figure, Size, figure, likely_figure, sizes},
    form::{is_complete, releases},
    message::{Message, OtherProcess, Part, Program},
    tensor,
};

static DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\bGPU ([0-9]+) has a total|\([A-Z]+ ([0-9]+); |on device(?: ordinal)? ([0-9]+)",
        r"|device:[A-Z]+:([0-9]+)|allocate [A-Za-z]+([0-9]+) buffer"
    ))
    .expect("a constant")
});

static OF_PROCESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"Process ([0-9]+) has $").expect("a constant"));

/// XLA's sums of a program's buffers.
static ALLOCATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b((?:[a-z_]+ )?[a-z_]+ allocation): *$").expect("a constant"));

/// The most unknown parts that are kept, and the most characters in each.
const MAX_UNREAD: usize = 8;
const MAX_PART: usize = 200;

/// Returns the message in a text; `None` if the text has no figure of a request. `before` is the part of the line
/// before it. The first `n_first` bytes are its first line.
pub(super) fn message(
    program: Program,
    line: u64,
    before: &str,
    text: &str,
    n_first: usize,
) -> Option<Message> {
    let mut message = Message::new(program, line);
    let (mut found, mut unknown) = (Found::default(), Vec::new());
    for size in sizes(text) {
        match figure(text, &size) {
            Some(figure) => found.add(&mut message, figure, &size),
            None => unknown.push(size),
        }
    }
    for size in unknown {
        message.add_unnamed(text, size.start, size.end, size.bytes);
        // The form is from a later version: guess what the known words did not show.
        if program == Program::Torch
            && size.end <= n_first
            && let Some(figure) = likely_figure(text, &size)
        {
            found.add(&mut message, figure, &size);
        }
    }
    if program == Program::Ggml && found.requested.is_none() {
        found.requested = text.rsplit_once("of size ").and_then(|(_, bytes)| leading_number(bytes));
    }
    message.requested_bytes = found.requested.or_else(|| tensor::bytes(text))?;
    let unallocated = || Some(found.reserved?.saturating_sub(message.allocated_bytes?));
    message.unallocated_bytes = message.unallocated_bytes.or_else(unallocated);
    let device = DEVICE.captures(text).and_then(|found| found.iter().flatten().nth(1)?.as_str().parse().ok());
    message.device = device;
    if program == Program::Torch {
        message.accelerator = text.split(' ').next().map(str::to_owned);
        message.releases = releases(before, text);
        message.is_beyond_reserve = text.contains("expandable_segments_reserve");
    }
    // XLA may print no sums.
    message.is_cut = program != Program::Xla && !is_complete(program, text);
    Some(message)
}

/// The figures of a message that are none of its fields.
#[derive(Default)]
struct Found {
    requested: Option<u64>,
    reserved: Option<u64>,
}

impl Found {
    /// Adds a figure if it is the first of its kind: a form has each once, and what follows may be other text.
    fn add(&mut self, message: &mut Message, figure: Figure, size: &Size) {
        let into = match figure {
            Figure::Requested => &mut self.requested,
            Figure::Reserved => &mut self.reserved,
            Figure::Capacity => &mut message.capacity_bytes,
            Figure::Free => &mut message.free_bytes,
            Figure::Process => &mut message.process_bytes,
            Figure::Limit => &mut message.limit_bytes,
            Figure::Allocated => &mut message.allocated_bytes,
            Figure::PrivatePools => &mut message.private_pool_bytes,
            Figure::Unallocated => &mut message.unallocated_bytes,
            Figure::Other => &mut message.other_bytes,
            Figure::Skipped => return,
        };
        if into.is_none() {
            *into = Some(size.bytes);
            message.rounding_bytes = message.rounding_bytes.max(size.rounding_bytes);
        }
    }
}

impl Message {
    /// Keeps a size without a known phrase around it: another process's, a sum of XLA's, or one that is not known.
    fn add_unnamed(&mut self, text: &str, start: usize, end: usize, bytes: u64) {
        let before = &text[..start];
        if let Some(pid) = OF_PROCESS.captures(before).and_then(|found| found[1].parse().ok()) {
            self.others.push(OtherProcess { pid, bytes });
        } else if self.program == Program::Xla {
            // The list of buffers after the sums is not read.
            if let Some(name) = ALLOCATION.captures(before) {
                self.parts.push(Part { name: name[1].to_owned(), bytes });
            }
        } else if self.unread.len() < MAX_UNREAD {
            let begin = before.rfind(". ").map_or(0, |at| at + 2);
            let rest = &text[end..];
            let sentence = &text[begin..end + rest.find(". ").unwrap_or(rest.len())];
            let sentence: String = sentence.trim_end_matches('.').chars().take(MAX_PART).collect();
            if !self.unread.contains(&sentence) {
                self.unread.push(sentence);
            }
        }
    }
}

fn leading_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
