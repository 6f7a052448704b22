//! Opens snapshots for the commands that write others: the events remain in the file where that is possible.

#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use memreel_snapshot::{
    Snapshot,
    pickle::{self, LazySnapshot, OpenFile},
};

use super::{
    Opener, each::each_path, is_json, name, parse, read_profile, read_unmappable, recovered, unreadable,
};
use crate::{exit::Exit, failure::Failure, text::Waiting};

/// A file of the command line, open.
pub(crate) struct Source {
    pub(crate) name: String,
    content: Content,
}

enum Content {
    File(OpenFile),
    /// Standard input, a pipe or JSON, which cannot be mapped.
    Bytes(Vec<u8>),
    /// A tape's snapshot, or a question's in-memory snapshot.
    Memory(Arc<Snapshot>),
}

impl Source {
    pub(crate) fn open(path: &Path, opener: &Opener) -> Result<Source, Failure> {
        if let Some(snapshot) = opener.snapshot(path) {
            return Ok(Source { name: name(path), content: Content::Memory(snapshot.clone()) });
        }
        if let Some(bytes) = read_profile(path)? {
            return Ok(Source { name: name(path), content: Content::Memory(Arc::new(parse(&bytes)?)) });
        }
        let content = match (recovered(path)?, read_unmappable(path)?) {
            (Some(tape), _) => Content::Memory(Arc::new(tape.snapshot())),
            (None, Some(bytes)) => Content::Bytes(bytes),
            (None, None) => Content::File(pickle::open(path).map_err(unreadable)?),
        };
        Ok(Source { name: name(path), content })
    }

    /// Reads everything but the events; of JSON, the events too.
    pub(crate) fn lazy(&self) -> Result<LazySnapshot<'_>, Failure> {
        let _waiting = Waiting::new(format!("reading {}", self.name));
        Ok(match &self.content {
            Content::File(file) => file.lazy()?,
            Content::Memory(snapshot) => (**snapshot).clone().into(),
            Content::Bytes(bytes) if is_json(bytes) => parse(bytes)?.into(),
            Content::Bytes(bytes) => pickle::lazy(bytes)?,
        })
    }
}

/// Answers for every file without holding its events in memory. Failures are handled as in
/// [`each_file`](super::each::each_file).
pub(crate) fn each_lazy(
    files: &[PathBuf],
    opener: &Opener,
    mut answer: impl FnMut(&str, &LazySnapshot<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    each_path(files, |path| {
        let source = Source::open(path, opener)?;
        answer(&source.name, &source.lazy()?)
    })
}
