//! A child's output: the part of it that an answer may contain, and how much there was.

#![forbid(unsafe_code)]

use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes after which the rest of an output is not read. The child then finds a closed pipe.
const MAX_READ_BYTES: u64 = 256 << 20;

/// A part of an output.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Output {
    /// The bytes after the skipped lines, at most as many as were requested.
    pub(crate) kept: Vec<u8>,
    /// The lines of the whole output; an unfinished one counts.
    pub(crate) n_lines: u64,
    /// Whether there was more than was read, so that `n_lines` is too low.
    pub(crate) is_endless: bool,
}

/// Reads to the end; keeps at most `n_kept` bytes after the first `n_skipped` lines.
pub(crate) async fn read(mut from: impl AsyncRead + Unpin, n_skipped: u64, n_kept: usize) -> Output {
    let mut output = Output::default();
    let (mut buffer, mut n_read, mut is_within_a_line) = (vec![0; 1 << 16], 0_u64, false);
    // A read error counts as the end: the child's exit status has the reason.
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let mut bytes = &buffer[..n];
        n_read += n as u64;
        is_within_a_line = bytes.last() != Some(&b'\n');
        while output.n_lines < n_skipped {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                bytes = &[];
                break;
            };
            output.n_lines += 1;
            bytes = &bytes[end + 1..];
        }
        output.n_lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let n_wanted = bytes.len().min(n_kept - output.kept.len());
        output.kept.extend_from_slice(&bytes[..n_wanted]);
        if n_read >= MAX_READ_BYTES {
            output.is_endless = true;
            break;
        }
    }
    output.n_lines += u64::from(is_within_a_line);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8], n_skipped: u64, n_kept: usize) -> (String, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let output = runtime.block_on(read(text, n_skipped, n_kept));
        assert!(!output.is_endless);
        (String::from_utf8(output.kept).unwrap(), output.n_lines)
    }

    #[test]
    fn lines_are_skipped_kept_and_counted() {
        let text = b"a\nbc\n\nd";
        assert_eq!(read_all(text, 0, 100), ("a\nbc\n\nd".to_owned(), 4));
        assert_eq!(read_all(text, 0, 3), ("a\nb".to_owned(), 4));
        assert_eq!(read_all(text, 2, 100), ("\nd".to_owned(), 4));
        assert_eq!(read_all(text, 9, 100), (String::new(), 4));
        assert_eq!(read_all(b"", 0, 100), (String::new(), 0));
        assert_eq!(read_all(b"a\n", 1, 100), (String::new(), 1));
    }

    #[test]
    fn lines_over_many_reads_are_counted_once() {
        // Longer than the buffer, with ends of lines on both sides of its ends.
        let text: String = (0..50_000).map(|n| format!("{n}\n")).collect();
        let (kept, n_lines) = read_all(text.as_bytes(), 49_998, 1 << 20);
        assert_eq!((kept.as_str(), n_lines), ("49998\n49999\n", 50_000));
    }

    #[test]
    fn an_endless_output_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let output = runtime.block_on(read(tokio::io::repeat(b'\n'), 0, 10));
        assert!(output.is_endless && output.kept.len() == 10 && output.n_lines >= MAX_READ_BYTES);
    }
}
