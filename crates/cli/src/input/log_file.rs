//! Reads logs named on the command line: texts in which a program printed that a request failed.

#![forbid(unsafe_code)]

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use memreel_snapshot::{
    log::{Messages, utf8},
    pickle,
    place::open_plain,
};

use super::{Opened, Opener, is_stdin, name};
use crate::{
    exit::Exit,
    failure::Failure,
    text::{Progress, Waiting, clean, count},
};

/// How many bytes at the start of a file are examined to distinguish a log from a snapshot.
const HEAD: usize = 4096;

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// What was searched for in a text without a message.
const LOOKED_FOR: &str = "out-of-memory messages from PyTorch (\"out of memory. Tried to allocate\"), JAX (RESOURCE_EXHAUSTED), \
                          TensorFlow (\"OOM when allocating tensor\"), CuPy (\"Out of memory allocating\"), llama.cpp \
                          (\"failed to allocate … buffer\") and memreel";

/// Reads the messages of a log. `None` if the file is not a text, or is a snapshot as a text.
pub(crate) fn read(path: &Path, opener: &Opener) -> Result<Option<Messages>, Failure> {
    let failed = |error: io::Error| Failure::Message(Exit::Unreadable, format!("cannot be read: {error}"));
    if opener.snapshot(path).is_some() {
        return Ok(None);
    }
    if is_stdin(path) {
        let mut log = io::stdin().lock();
        // What is only peeked at is still there for the next reader.
        if !is_log(log.fill_buf().map_err(failed)?) {
            return Ok(None);
        }
        let _waiting = Waiting::new(format!("reading {}", name(path)));
        return Messages::read(log, &|_| ()).map(Some).map_err(failed);
    }
    // What cannot be opened, and what is not a file, is reported by the reader of snapshots.
    let Ok(mut file) = open_plain(path) else { return Ok(None) };
    let n_bytes = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    if !is_log(&head) {
        return Ok(None);
    }
    let progress = Progress::new(n_bytes);
    let log = BufReader::with_capacity(BUFFER, head.chain(file));
    Messages::read(log, &|n_bytes| progress.add(n_bytes)).map(Some).map_err(failed)
}

/// Returns whether a file starts like a text that is not a snapshot: neither JSON, a pickle of a protocol of letters,
/// nor a page.
fn is_log(head: &[u8]) -> bool {
    let head = &*utf8(&head[..head.len().min(HEAD)]);
    let is_binary = |byte: &u8| matches!(byte, 0..=6 | 14..=26 | 28..=31 | 0x7f);
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let is_snapshot =
        [&b"<"[..], b"(d", b"(l", b"}", b"]", b"{}", b"[]"].iter().any(|begin| text.starts_with(begin));
    let is_other =
        is_snapshot || !text.is_empty() && is_json_value(text) || pickle::named_text(text).is_some();
    !text.is_empty() && !head.iter().any(is_binary) && !is_other
}

/// Returns whether a text starts like a JSON value that continues: a log may have an object on each line, or start with
/// a bracket.
fn is_json_value(text: &[u8]) -> bool {
    let then = text[1..].trim_ascii_start().first();
    match text[0] {
        b'{' => {
            let mut lines = text.split(|byte| *byte == b'\n');
            let is_object = |line: &[u8]| {
                let line = line.trim_ascii();
                line.starts_with(b"{") && line.ends_with(b"}")
            };
            let is_each_line = lines.next().is_some_and(is_object)
                && lines.next().is_some_and(|line| line.starts_with(b"{"));
            then == Some(&b'"') && !is_each_line
        }
        b'[' => matches!(then, Some(b'{' | b'[')),
        _ => false,
    }
}

/// A longer text is not tried as a snapshot.
const MAX_SNAPSHOT: u64 = 16 << 20;

/// Returns whether a text without messages is nevertheless a snapshot: a pickle of letters.
pub(crate) fn is_snapshot(path: &Path, opener: &Opener) -> bool {
    tried(path, opener).is_some_and(|tried| tried.is_ok())
}

/// Reads a short text as a snapshot.
fn tried(path: &Path, opener: &Opener) -> Option<Result<Opened, Failure>> {
    let is_short = path.metadata().is_ok_and(|found| found.len() <= MAX_SNAPSHOT);
    (is_short && !is_stdin(path)).then(|| opener.open_quietly(path))
}

/// Returns why a text has no answer: it is neither a log with a message nor a snapshot.
pub(crate) fn no_message(path: &Path, messages: &Messages, opener: &Opener) -> Failure {
    let lines = count(messages.n_lines, "line");
    let why = match messages.without_figures_line {
        Some(line) => format!(
            "line {line} reports a failure without the figures of a request ({} in {lines}): the driver or a \
             library refused, not an allocator that prints them; record the program with: memreel record -- \
             PROGRAM (for JAX: jax.profiler.save_device_memory_profile)",
            count(messages.n_without_figures, "such line"),
        ),
        None => match tried(path, opener) {
            Some(Err(Failure::Message(_, what))) => {
                format!("{what}; no failed request in {lines} either: looked for {LOOKED_FOR}")
            }
            _ => format!("no failed request in {lines}: looked for {LOOKED_FOR}"),
        },
    };
    Failure::Message(Exit::Unreadable, why)
}

/// Returns what a file is for a command that reads snapshots, if it is a log with messages.
pub(crate) fn named(path: &Path, opener: &Opener) -> Option<Failure> {
    // What is read from a pipe is gone.
    if is_stdin(path) {
        return None;
    }
    let messages = read(path, opener).ok()??;
    let last = messages.last?;
    let (n, program) = (count(messages.n_messages, "out-of-memory message"), last.program.name());
    let file = crate::text::shell_word(&name(path));
    let what = format!(
        "a log, not a snapshot: it has {n}, the last from {program} on line {}; to see why: memreel oom {}",
        last.line,
        clean(&file),
    );
    Some(Failure::Message(Exit::Unreadable, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_told_from_snapshots() {
        let logs = [
            "Traceback (most recent call last):",
            "[rank0]: Traceback",
            "[2026-11-30 10:00:00] step 1",
            "\x1b[31mred\x1b[0m",
            "{\"level\": \"info\"}\n{\"level\": \"error\"}\n",
            "(Worker pid=12) x",
            "\u{feff}text",
            "  {'loss': 1.5}",
        ];
        let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let others = [
            "",
            "{\"segments\": [], \"device_traces\": []}",
            "[{\"device\": 0}]",
            "[]",
            "<!DOCTYPE html>",
            "(dp0\nVsegments\np1\n",
            "a\0b",
            "\u{1f}\u{8b}",
        ];
        logs.iter().for_each(|text| assert!(is_log(text.as_bytes()), "{text:?}"));
        others.iter().for_each(|text| assert!(!is_log(text.as_bytes()), "{text:?}"));
        assert!(!is_log(b"\x80\x04}."));
        assert!(is_log(&utf_16("\u{feff}step 1")) && is_log(&utf_16("step 1")) && !is_log(&utf_16("[{}]")));
    }
}
