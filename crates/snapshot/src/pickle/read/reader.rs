//! A reader: the parser, the decoder of entries and the interner, driven from a file's first byte to its last.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
    assembler::Assembler,
    entry_decoder::EntryDecoder,
    entry_spans::Entries,
    failure::{Attempt, Failure},
    findings::Findings,
    interner::Interner,
    lazy_trace::LazyTrace,
    node::Item,
    parser::{Effect, Parser},
};
use crate::{
    model::{Snapshot, TraceEntry},
    pickle::{file::Bytes, opcode},
    words::Error,
};

/// How much of a mapped file is in memory at most, if its entries remain in it.
const RESIDENT_BYTES: usize = 16 << 20;

/// How often the memory is measured, in bytes of the file.
const CHECKED_BYTES: usize = 1 << 16;

/// Which dictionaries of entries take the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// All that the decoder supports.
    Fast,
    /// None: the parser reads everything.
    Slow,
}

/// How far a file is read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Reading<'r> {
    /// The bytes of the file that are read.
    pub read_bytes: u64,
    /// The bytes of the file.
    pub n_bytes: u64,
    /// The events that are read, those of all devices in the order of the file. Events in an unusual layout are missing.
    pub entries: &'r [TraceEntry],
}

/// The means for reading a file, in addition to its bytes.
#[derive(Clone, Copy, Default)]
pub(in crate::pickle) struct Means<'a> {
    /// The mapped file, if its pages may be given back while it is read.
    pub(in crate::pickle) file: Option<&'a Bytes>,
    /// Called now and then while the file is read.
    pub(in crate::pickle) watch: Option<&'a dyn Fn(Reading<'_>)>,
}

impl std::fmt::Debug for Means<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("is_watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    parser: Parser<'a>,
    decoder: EntryDecoder<'a>,
    interner: Interner,
    path: Path,
    means: Means<'a>,
    /// The offset at which pages are returned next.
    next_release: usize,
    /// The offset where the memory is measured next.
    next_check: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader that keeps all entries in memory.
    pub(super) fn new(bytes: &'a [u8], path: Path) -> Self {
        Reader {
            parser: Parser::new(bytes),
            decoder: EntryDecoder::default(),
            interner: Interner::default(),
            path,
            means: Means::default(),
            next_release: RESIDENT_BYTES,
            next_check: CHECKED_BYTES,
        }
    }

    /// Reads with these means. Pages of a mapped file go back to the kernel once they are read; a page that is needed
    /// again is loaded again.
    pub(super) fn with(self, means: Means<'a>) -> Self {
        Reader { means, ..self }
    }

    /// Returns a reader that leaves entries in the file, and as much of a mapped file as possible on disk.
    pub(super) fn lazy(bytes: &'a [u8], file: Option<&'a Bytes>) -> Self {
        let decoder = EntryDecoder::lazy();
        Reader { decoder, ..Reader::new(bytes, Path::Fast).with(Means { file, watch: None }) }
    }

    /// Reads the whole file.
    pub(super) fn read(&mut self) -> Attempt<Snapshot> {
        let top = self.run()?;
        Ok(self.assemble(top)?.0)
    }

    /// Reads the whole file except the entries of devices, and prepares for decoding these again.
    pub(super) fn read_lazily(&mut self) -> Attempt<(Snapshot, Vec<LazyTrace>)> {
        let top = self.run()?;
        if !self.parser.memo.close() {
            return Err(Failure::Fallback);
        }
        self.assemble(top)
    }

    pub(super) fn into_findings(self) -> Findings {
        self.parser.findings
    }

    /// Returns the entries of the fast path.
    pub(super) fn entries_mut(&mut self) -> &mut Entries {
        &mut self.decoder.entries
    }

    /// Decodes entries with these numbers again. Returns false if the bytes have changed.
    pub(super) fn decode_again(&mut self, entries: Range<u32>, look: &mut dyn FnMut(&TraceEntry)) -> bool {
        self.decoder.decode_again(entries, &mut self.parser, &mut self.interner, look)
    }

    /// Runs to STOP and returns the value on top of the stack.
    fn run(&mut self) -> Attempt<Item> {
        let is_fast = self.path == Path::Fast;
        loop {
            let start = self.parser.input.pos();
            if start >= self.next_check {
                self.check(start)?;
            }
            let effect = match self.parser.input.byte()? {
                opcode::STOP => return Ok(self.parser.result(start)?),
                opcode::EMPTY_DICT
                    if is_fast && self.decoder.read(&mut self.parser, &mut self.interner)? =>
                {
                    Effect::None
                }
                opcode::EMPTY_LIST
                    if is_fast && self.decoder.lists.read(&mut self.parser, &mut self.interner) =>
                {
                    Effect::None
                }
                op => self.parser.step(op, start)?,
            };
            match effect {
                Effect::None => {}
                Effect::DictGrew(id) if is_fast => {
                    if !self.interner.adopt_frame(id, &mut self.parser) {
                        self.decoder.adopt(id, &mut self.parser, &mut self.interner)?;
                    }
                }
                Effect::ListGrew(id) if is_fast => self.interner.adopt_stack(id, &mut self.parser),
                Effect::DictGrew(_) | Effect::ListGrew(_) => {}
                Effect::NumberReassigned => self.decoder.forget_numbers(),
            }
        }
    }

    fn assemble(&mut self, top: Item) -> Attempt<(Snapshot, Vec<LazyTrace>)> {
        self.parser.nodes.complete();
        Assembler::new(&mut self.parser, &mut self.interner, &mut self.decoder).assemble(top)
    }

    /// Measures the memory, and returns the pages that were read to the kernel.
    ///
    /// # Errors
    /// If the values take far more memory than the file is long, or there are too many events to be numbered.
    #[cold]
    fn check(&mut self, pos: usize) -> Attempt<()> {
        self.next_check = pos + CHECKED_BYTES;
        if pos >= self.next_release {
            self.next_release = pos + RESIDENT_BYTES;
            self.means.file.into_iter().for_each(Bytes::forget);
        }
        if let Some(watch) = self.means.watch {
            let n_bytes = self.parser.input.bytes().len() as u64;
            watch(Reading { read_bytes: pos as u64, n_bytes, entries: self.decoder.entries.in_memory() });
        }
        // Entries that stay in the file take no memory, and are numbered all the same.
        if self.decoder.entries.len() > u32::MAX - 2 * CHECKED_BYTES as u32 {
            return Err(Error::malformed(
                pos as u64,
                "more than four billion events; record fewer (max_entries)",
            )
            .into());
        }
        let n_bytes = self.decoder.n_bytes() + self.interner.n_bytes();
        self.parser.check_memory(n_bytes, pos)?;
        Ok(())
    }
}
