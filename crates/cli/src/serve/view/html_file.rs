//! The page that is one file.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use memreel_snapshot::pickle;

use super::{
    bundle, pack,
    reading::{Source, read},
    recording::Recording,
    route::Files,
};
use crate::{exit::Exit, failure::Failure, options::replaces_no_snapshot, row::Maker, text::ShownPath};

/// Writes the page that is one file, which begins with a view: the whole of it or nothing.
pub(crate) fn save(files: &[PathBuf], path: &Path, view: &str, make: Maker) -> Result<Exit, Failure> {
    let unreadable = |why: String| Failure::Message(Exit::Unreadable, why);
    replaces_no_snapshot(path, files)?;
    let page = html(files, view, make).map_err(unreadable)?;
    let cannot = |error: io::Error| unreadable(format!("{}: cannot be written: {error}", ShownPath(&path)));
    pickle::replace(path, |file| file.write_all(page.as_bytes())).map_err(cannot)?;
    Ok(Exit::Fine)
}

/// Returns one page that has the files in it, as far as there is room for them, and begins with a view.
///
/// # Errors
/// A file cannot be read; the text has its name.
fn html(paths: &[PathBuf], view: &str, make: Maker) -> Result<String, String> {
    let sources: Vec<Source> = paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings, make };
    read(files.sources, files.recordings);
    let failed = sources.iter().find_map(|source| Some((source, source.failure()?)));
    if let Some((source, why)) = failed {
        return Err(format!("{}: {why}", source.name));
    }
    let pack = pack::pack(&files, pack::MAX_BYTES).map_err(|error| error.to_string())?;
    bundle::html(&pack, view)
}
