//! Finds the tapes in the folder of a run by name.

#![forbid(unsafe_code)]

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A tape in the folder: `1234-0-rank3.tape`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TapeFile {
    pub(crate) process: u32,
    /// How many programs the process ran before.
    pub(crate) nth: u32,
    pub(crate) rank: Option<String>,
    pub(crate) path: PathBuf,
}

/// Returns the tapes in the folder of a run, by process.
pub(crate) fn tapes_in(folder: &Path) -> io::Result<Vec<TapeFile>> {
    let mut tapes = Vec::new();
    for entry in fs::read_dir(folder)? {
        tapes.extend(TapeFile::of(&entry?.path()));
    }
    tapes.sort();
    Ok(tapes)
}

impl TapeFile {
    /// Reads the name of a tape.
    pub(crate) fn of(path: &Path) -> Option<TapeFile> {
        let name = path.file_name()?.to_str()?.strip_suffix(".tape")?;
        let mut parts = name.split('-');
        let (process, nth) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let rank = parts.next().and_then(|part| part.strip_prefix("rank")).map(str::to_owned);
        Some(TapeFile { process, nth, rank, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_tape_has_process_program_and_rank() {
        let of = |name: &str| TapeFile::of(Path::new(name)).map(|tape| (tape.process, tape.nth, tape.rank));
        assert_eq!(of("/x/12-0.tape"), Some((12, 0, None)));
        assert_eq!(of("/x/12-3-rank7.tape"), Some((12, 3, Some("7".into()))));
        assert_eq!(of("/x/12-torch.pickle"), None);
        assert_eq!(of("/x/twelve-0.tape"), None);
    }
}
