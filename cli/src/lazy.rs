//! Snapshots for the commands that write others: the events stay in the file, wherever that is possible.

use std::path::{Path, PathBuf};

use memreel::pickle::{self, LazySnapshot, OpenFile};

use crate::{
    exit::Exit,
    input::{Failure, is_json, name, parse, piped, unread},
    progress::Waiting,
};

/// A file of the command line, open.
pub(crate) struct Source {
    pub(crate) name: String,
    content: Content,
}

enum Content {
    File(OpenFile),
    /// What cannot be mapped: standard input, a pipe, a text.
    Bytes(Vec<u8>),
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Source, Failure> {
        let content = match piped(path)? {
            Some(bytes) => Content::Bytes(bytes),
            None => Content::File(pickle::open(path).map_err(unread)?),
        };
        Ok(Source { name: name(path), content })
    }

    /// All but the events; of a text all.
    pub(crate) fn lazy(&self) -> Result<LazySnapshot<'_>, Failure> {
        let _waiting = Waiting::new(format!("reading {}", self.name));
        Ok(match &self.content {
            Content::File(file) => file.lazy()?,
            Content::Bytes(bytes) if is_json(bytes) => parse(bytes)?.into(),
            Content::Bytes(bytes) => pickle::lazy(bytes)?,
        })
    }
}

/// As [`each_file`](crate::input::each_file), without the events in memory.
pub(crate) fn each_lazy(
    files: &[PathBuf],
    mut answer: impl FnMut(&str, &LazySnapshot<'_>) -> Result<Exit, Failure>,
) -> std::io::Result<Exit> {
    crate::input::each_path(files, |path| {
        let source = Source::open(path)?;
        answer(&source.name, &source.lazy()?)
    })
}
