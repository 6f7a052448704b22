//! Reads a log line by line, in bounded memory.

use std::{
    io::{self, BufRead, ErrorKind},
    sync::LazyLock,
};

use regex::bytes::Regex;

use super::{
    context::Context, encoding::Utf16, form::beginnings, line::Line, messages::Messages, open::Open,
    traceback::Tracebacks,
};

/// The most bytes of a line that are read.
const MAX_LINE: usize = 1 << 20;

/// The most messages that are read at once, one for each rank.
const MAX_OPEN: usize = 256;

/// Words that make a line worth reading; most lines have none.
static WORTH_READING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?-u)out of memory|RESOURCE_EXHAUSTED|Out of memory|OOM when allocating|failed to allocate",
        r"|Limit:|InUse:|buffer size|MiB free|OutOfMemory|CUDA_ERROR_OUT_OF_MEMORY",
        r#"|Traceback \(most|File ".*, line |File .*:[0-9]+, in |\.py:[0-9]+ in "#
    ))
    .expect("a constant")
});

impl Messages {
    /// Reads a log to its end. `watch` is called with the bytes of each piece that was read.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(mut log: impl BufRead, watch: &dyn Fn(u64)) -> io::Result<Messages> {
        let (mut reader, mut utf16, mut is_first) = (Reader::default(), None, true);
        loop {
            let piece = match log.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                return Ok(reader.finish());
            }
            let n_bytes = piece.len();
            if std::mem::take(&mut is_first) {
                utf16 = Utf16::of(piece);
            }
            match &mut utf16 {
                Some(utf16) => reader.add(&utf16.decode(piece)),
                None => reader.add(piece),
            }
            log.consume(n_bytes);
            watch(n_bytes as u64);
        }
    }
}

/// A log that is being read.
#[derive(Default)]
struct Reader {
    messages: Messages,
    context: Context,
    tracebacks: Tracebacks,
    /// The start of a line whose end was not read yet.
    partial: Vec<u8>,
    is_long: bool,
    /// Whether the last byte was a carriage return, whose line feed ends the same line.
    was_return: bool,
    open: Vec<Open>,
    /// A line with the name of the error, whose message starts in the next line.
    named: Option<Line>,
}

impl Reader {
    fn add(&mut self, mut piece: &[u8]) {
        // Progress bars end with carriage returns, and a line of them may have any length.
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_end_of_return =
                piece[end] == b'\n' && self.was_return && end == 0 && self.partial.is_empty();
            self.was_return = piece[end] == b'\r';
            if is_end_of_return {
                self.messages.n_lines += 1;
            } else if self.partial.is_empty() && end <= MAX_LINE {
                self.line(&piece[..end], piece[end] == b'\n');
            } else {
                self.keep(&piece[..end]);
                let line = std::mem::take(&mut self.partial);
                self.line(&line, piece[end] == b'\n');
                self.partial = line;
                self.partial.clear();
            }
            piece = &piece[end + 1..];
        }
        self.keep(piece);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.partial.len();
        self.is_long |= bytes.len() > room;
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line(&mut self, bytes: &[u8], is_whole: bool) {
        self.messages.n_long_lines += u64::from(std::mem::take(&mut self.is_long));
        let number = self.messages.n_lines + 1;
        self.messages.n_lines += u64::from(is_whole);
        if self.open.is_empty() && self.named.is_none() && !WORTH_READING.is_match(bytes) {
            return;
        }
        let mut line = Line::of(bytes);
        if let Some(named) = self.named.take().filter(|named| named.rank == line.rank) {
            line.text = format!("{} {}", named.text, line.text);
        }
        self.context.add(number, &line.text);
        self.tracebacks.add(number, &line);
        let begins = beginnings(&line.text);
        self.go_on(&line, begins.first().map(|(at, _)| *at));
        for (index, (start, program)) in begins.iter().enumerate() {
            let end = begins.get(index + 1).map_or(line.text.len(), |(next, _)| *next);
            let (before, text) = (&line.text[..*start], &line.text[*start..end]);
            let calls = self.tracebacks.take(number, line.rank.as_deref());
            let open = Open::new(*program, number, line.rank.clone(), before, text).with_calls(calls);
            if open.is_complete() || index + 1 < begins.len() || self.open.len() == MAX_OPEN {
                self.close(open);
            } else {
                self.open.push(open);
            }
        }
        if begins.is_empty() && is_without_figures(&line.text) {
            self.messages.add_without_figures(number);
        } else if begins.is_empty() && ends_with_name(&line.text) {
            self.named = Some(line);
        }
    }

    /// Gives a line to the message of its rank that continues. A line in which a message starts ends it.
    fn go_on(&mut self, line: &Line, begin: Option<usize>) {
        let Some(at) = self.open.iter().position(|open| open.is_of(line.rank.as_deref())) else { return };
        if begin.is_some() || !self.open[at].add(line) {
            let open = self.open.remove(at);
            self.close(open);
        }
    }

    fn close(&mut self, open: Open) {
        let (line, is_refusal) = (open.line(), open.is_refusal());
        match open.close() {
            Some(mut message) => {
                self.context.complete(&mut message);
                self.messages.add(message);
            }
            None if is_refusal => self.messages.add_without_figures(line),
            None => {}
        }
    }

    fn finish(mut self) -> Messages {
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.line(&line, true);
        }
        for open in std::mem::take(&mut self.open) {
            self.close(open);
        }
        self.messages
    }
}

/// Whether a line ends with the name of the error, or within the first words of its message.
fn ends_with_name(line: &str) -> bool {
    const FIRST_WORDS: usize = " CUDA out of memory.".len();
    line.rsplit_once("OutOfMemoryError:").is_some_and(|(_, rest)| rest.len() < FIRST_WORDS)
}

/// Whether a line reports a failure without the figures of a request.
fn is_without_figures(line: &str) -> bool {
    [
        "CUDA error: out of memory",
        "HIP error: out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation",
    ]
    .iter()
    .any(|words| line.contains(words))
}
