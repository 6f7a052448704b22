//! A packed tape as the source of the tape that it was.
#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io,
    path::Path,
};

use super::{
    super::{
        layout::{HEADER_BYTES, STEP_BYTES},
        source::Source,
    },
    START_BYTES, VERSION,
    blocks::{BlockHead, BlockKind, HEAD_BYTES},
    is_packed,
    numbers::take,
    step::{empty_step, read_step},
};
use memreel_snapshot::words::{Error, Result};

/// The most bytes of the text about the program's end.
const MAX_TEXT_BYTES: u64 = 1 << 16;

/// A packed tape that was opened. Its steps are unpacked when they are read, one at a time.
#[derive(Debug)]
pub(in crate::tape) struct PackedFile<'f> {
    file: &'f File,
    header: Vec<u8>,
    failure: Option<String>,
    /// Where each step's bytes are in the file, with what precedes them; `None` for a damaged one.
    steps: Vec<(u64, Option<BlockHead>)>,
    is_complete: bool,
    /// The step that was read last, with its bytes.
    last: RefCell<Option<(usize, Vec<u8>)>>,
    n_damaged: Cell<usize>,
}

impl<'f> PackedFile<'f> {
    /// Finds the blocks of a file that [`is_packed`].
    ///
    /// # Errors
    /// [`Error::is_io`], and [`Error::is_malformed`] if it is of another version, or its beginning is damaged.
    pub(in crate::tape) fn open(file: &'f File, path: &Path) -> Result<PackedFile<'f>> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let refused = |what: String| Err(Error::malformed(0, what));
        let mut start = [0; START_BYTES];
        let n_bytes = Source::read_at(file, 0, &mut start).map_err(failed)?;
        let version = u32::from_le_bytes(start[START_BYTES - 4..].try_into().unwrap_or_default());
        if n_bytes < START_BYTES || !is_packed(&start) {
            return refused("the packed tape ends within its header".into());
        }
        if version != VERSION {
            return refused(format!(
                "the packed tape has version {version}, this memreel reads version {VERSION}; use the memreel that \
                 recorded it"
            ));
        }
        let n_bytes = Source::n_bytes(file).map_err(failed)?;
        let mut at = START_BYTES as u64;
        let head = head_at(file, at, n_bytes).map_err(failed)?.filter(|head| head.kind == BlockKind::Header);
        let bytes = match head {
            Some(head) => bytes_of(file, at + HEAD_BYTES as u64, &head).map_err(failed)?,
            None => None,
        };
        let (Some(head), Some((header, failure))) = (head, bytes.as_deref().and_then(beginning)) else {
            return refused("the packed tape's header is damaged".into());
        };
        let mut packed = PackedFile {
            file,
            header,
            failure,
            steps: Vec::new(),
            is_complete: false,
            last: RefCell::new(None),
            n_damaged: Cell::new(0),
        };
        at += HEAD_BYTES as u64 + u64::from(head.n_packed);
        // Without a block's sizes, the next one is not found.
        while let Some(head) = head_at(file, at, n_bytes).map_err(failed)? {
            let place = packed.steps.len();
            if head.number as usize != place || head.kind == BlockKind::Header {
                break;
            }
            if head.kind == BlockKind::End {
                packed.is_complete = true;
                break;
            }
            at += HEAD_BYTES as u64;
            packed.steps.push((at, Some(head)));
            at += u64::from(head.n_packed);
        }
        Ok(packed)
    }

    /// Returns the header of the tape.
    pub(in crate::tape) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns how the program failed.
    pub(in crate::tape) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns what is missing of what was read, one sentence for each problem.
    pub(in crate::tape) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.is_complete {
            problems.push("the packed tape is cut or damaged: its end is missing".to_owned());
        }
        match self.n_damaged.get() {
            0 => {}
            1 => {
                problems.push("1 part of the packed tape is damaged, and what is in it is missing".to_owned())
            }
            n => problems
                .push(format!("{n} parts of the packed tape are damaged, and what is in them is missing")),
        }
        problems
    }

    /// Returns the bytes of a step; zeros, which are free slots, if they are damaged.
    fn step(&self, number: usize) -> io::Result<Vec<u8>> {
        let mut step = empty_step();
        let Some((at, Some(head))) = self.steps.get(number) else { return Ok(step) };
        let streams = bytes_of(self.file, *at, head)?;
        let read = streams.and_then(|streams| read_step(&streams, head.n_packed as usize, &mut step));
        if read.is_none() {
            self.n_damaged.set(self.n_damaged.get() + 1);
            return Ok(empty_step());
        }
        Ok(step)
    }
}

impl Source for PackedFile<'_> {
    fn n_bytes(&self) -> io::Result<u64> {
        Ok((HEADER_BYTES + self.steps.len() * STEP_BYTES) as u64)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let in_steps = usize::try_from(at).ok().and_then(|at| at.checked_sub(HEADER_BYTES));
        let Some((number, at)) = in_steps.map(|at| (at / STEP_BYTES, at % STEP_BYTES)) else { return Ok(0) };
        if number >= self.steps.len() {
            return Ok(0);
        }
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(last, _)| *last != number) {
            *last = Some((number, self.step(number)?));
        }
        let step = last.as_ref().map_or(&[][..], |(_, step)| &step[at..]);
        let n_bytes = buffer.len().min(step.len());
        buffer[..n_bytes].copy_from_slice(&step[..n_bytes]);
        Ok(n_bytes)
    }
}

/// Returns what precedes the bytes of the block at an offset; `None` if it is damaged, or the file ends before the block does.
fn head_at(file: &File, at: u64, n_bytes: u64) -> io::Result<Option<BlockHead>> {
    let mut bytes = [0; HEAD_BYTES];
    let is_whole = Source::read_at(file, at, &mut bytes)? == HEAD_BYTES;
    let head = BlockHead::of(&bytes).filter(|_| is_whole);
    Ok(head.filter(|head| at + HEAD_BYTES as u64 + u64::from(head.n_packed) <= n_bytes))
}

/// Returns what a block had before it was compressed; `None` if it is damaged.
fn bytes_of(file: &File, at: u64, head: &BlockHead) -> io::Result<Option<Vec<u8>>> {
    let mut packed = vec![0; head.n_packed as usize];
    let is_whole = Source::read_at(file, at, &mut packed)? == packed.len();
    Ok(if is_whole { head.unpacked(packed) } else { None })
}

/// Returns the header of the tape, and how the program failed.
fn beginning(bytes: &[u8]) -> Option<(Vec<u8>, Option<String>)> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let len = take(&mut rest)?;
    if len > MAX_TEXT_BYTES || rest.len() as u64 != len {
        return None;
    }
    let text = std::str::from_utf8(rest).ok()?;
    Some((header.to_vec(), (!text.is_empty()).then(|| text.to_owned())))
}
