//! Snapshots for the commands that write others: the events stay in the file, wherever that is possible.

use std::path::{Path, PathBuf};

use memreel::pickle::{self, OpenFile, Stored};

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
    pub(crate) fn stored(&self) -> Result<Stored<'_>, Failure> {
        let _waiting = Waiting::new(format!("reading {}", self.name));
        Ok(match &self.content {
            Content::File(file) => file.stored()?,
            Content::Bytes(bytes) if is_json(bytes) => parse(bytes)?.into(),
            Content::Bytes(bytes) => pickle::stored(bytes)?,
        })
    }
}

/// As [`each_file`](crate::input::each_file), without the events in memory.
pub(crate) fn each_stored(
    files: &[PathBuf],
    mut answer: impl FnMut(&str, &Stored<'_>) -> Result<Exit, Failure>,
) -> std::io::Result<Exit> {
    crate::input::each_path(files, |path| {
        let source = Source::open(path)?;
        answer(&source.name, &source.stored()?)
    })
}
