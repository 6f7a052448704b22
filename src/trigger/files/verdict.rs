//! The files next to a snapshot of a failed request that explain why it failed: `oom.verdict.txt`, `oom.verdict.json`.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use crate::process::notice;
use crate::trigger::files::whole_file::WholeFile;
use memreel_snapshot::words::{Error, OomVerdict, Result};

/// How to treat an existing file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::trigger) enum Existing {
    /// It remains, and the new one gets a number.
    Stays,
    /// It is replaced as a whole.
    IsReplaced,
}

/// Returns the paths next to a snapshot: of the text and of the JSON.
pub(in crate::trigger) fn beside(snapshot: &Path) -> [PathBuf; 2] {
    let name = snapshot.file_name().unwrap_or_default().to_os_string();
    let stem = match name.to_str().and_then(|name| name.strip_suffix(".pickle")) {
        Some(stem) => stem.into(),
        None => name,
    };
    ["txt", "json"].map(|extension| {
        let mut name = stem.clone();
        name.push(".verdict.");
        name.push(extension);
        snapshot.with_file_name(name)
    })
}

/// Writes the verdict next to a snapshot that has its final name. A file that cannot be written is reported in one line
/// on standard error.
pub(in crate::trigger) fn write(snapshot: &Path, verdict: &OomVerdict, existing: Existing) {
    for (path, text) in beside(snapshot).iter().zip([&verdict.text, &verdict.json]) {
        if let Err(error) = write_whole(path, text, existing) {
            notice::print(&format!("no verdict next to {}: {error}", snapshot.display()));
        }
    }
}

/// Writes a text file completely or not at all.
fn write_whole(path: &Path, text: &str, existing: Existing) -> Result<()> {
    let cannot = |error| Error::io("cannot write", path, error);
    // Removed on every path except the last.
    let whole = WholeFile::begin(path)?;
    // The name is predictable, so others may have put a link there.
    let mut file = whole.create().map_err(cannot)?;
    file.write_all(format!("{text}\n").as_bytes()).map_err(cannot)?;
    match existing {
        Existing::Stays => whole.named().map(drop),
        Existing::IsReplaced => whole.replaces(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_verdict_is_beside_its_snapshot() {
        let names = |snapshot: &str| beside(Path::new(snapshot)).map(|path| path.display().to_string());
        assert_eq!(names("a/oom-1.pickle"), ["a/oom-1.verdict.txt", "a/oom-1.verdict.json"]);
        // Two snapshots never share a verdict.
        assert_eq!(names("run.1"), ["run.1.verdict.txt", "run.1.verdict.json"]);
    }

    #[test]
    fn a_file_that_is_there_stays_or_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = folder.path().join("oom.pickle");
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let verdict = |text: &str| OomVerdict::new(text.to_owned(), "{}".to_owned());
        write(&snapshot, &verdict("first"), Existing::Stays);
        write(&snapshot, &verdict("second"), Existing::Stays);
        assert_eq!(
            (text("oom.verdict.txt"), text("oom.verdict-1.txt")),
            ("first\n".into(), "second\n".into())
        );
        write(&snapshot, &verdict("third"), Existing::IsReplaced);
        assert_eq!((text("oom.verdict.txt"), text("oom.verdict.json")), ("third\n".into(), "{}\n".into()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
