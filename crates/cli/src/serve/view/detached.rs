//! The view of files without a server: the page calls it directly and gets the answers that `memreel view` would send.

#![forbid(unsafe_code)]

use std::{fmt, path::PathBuf, sync::OnceLock};

use super::{
    reading::{Source, read_one},
    recording::Recording,
    request::Request,
    route::Files,
};
use crate::row::Maker;

/// The answers of `memreel view` about some files, without its server: for a page that has memreel in it.
///
/// The files stay in memory until the program ends.
pub struct View(Files<'static>);

impl View {
    /// Returns the view of files, none of which is read yet.
    pub(crate) fn open(paths: &[PathBuf], make: Maker) -> View {
        let sources: Vec<Source> = paths.iter().map(|path| Source::new(path)).collect();
        let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
        // A recording borrows from its file, and both end with the program.
        View(Files { sources: sources.leak(), recordings: recordings.leak(), make })
    }

    /// Reads a file, by its number. Calls `heard` whenever more of it is read.
    pub fn read(&self, file: usize, heard: &dyn Fn()) {
        if let Some((source, recording)) = self.0.sources.get(file).zip(self.0.recordings.get(file)) {
            read_one(source, recording, heard);
        }
    }

    /// Notes why a file cannot be shown.
    pub fn fail(&self, file: usize, why: String) {
        if let Some(source) = self.0.sources.get(file) {
            source.fail(why);
        }
    }

    /// Returns the answer to a request such as `state?moment=5`, and its status of HTTP.
    #[must_use]
    pub fn answer(&self, request: &str) -> (u16, Vec<u8>) {
        let (path, query) = request.split_once('?').unwrap_or((request, ""));
        let answer = self.0.answer(&Request::new(path, Some(query)));
        (answer.status, answer.bytes)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("n_files", &self.0.sources.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_answers_without_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken.pickle");
        std::fs::write(&path, "not a snapshot").unwrap();
        let view = View::open(&[path.clone(), path], |_| unreachable!("no question is asked"));
        let text = |request: &str| {
            let (status, bytes) = view.answer(request);
            (status, String::from_utf8(bytes).unwrap())
        };
        assert!(text("files").1.contains("\"state\":\"reading\""));
        view.read(0, &|| {});
        view.fail(1, "it is too large".to_owned());
        let (status, files) = text("files");
        assert!(status == 200 && files.contains("it is too large"), "{files}");
        assert_eq!(files.matches("\"state\":\"failed\"").count(), 2, "{files}");
        assert_eq!(text("totals?file=2").0, 404);
    }
}
