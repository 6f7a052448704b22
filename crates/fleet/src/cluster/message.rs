//! A table, or a scan of it, as bytes.

use std::{io::Read, sync::Arc};

use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};

use super::MESSAGE_BYTES;
use crate::{columns::Table, files::SourceFile, tables::At};

/// What our messages begin with; the version of the program and a line feed follow.
const MAGIC: &str = "memreel-fleet ";

/// How much zstd tries: paths of one folder repeat, and the first level finds that.
const LEVEL: i32 = 1;

/// Which files of which table.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct TableMessage {
    table: String,
    at: Option<At>,
    /// The address and the size of each file; its job and its rank are in its address.
    files: Vec<(String, u64)>,
}

impl TableMessage {
    pub(super) fn new<'f>(
        table: Table,
        at: Option<At>,
        files: impl Iterator<Item = &'f Arc<SourceFile>>,
    ) -> TableMessage {
        let files = files.map(|file| (file.file.clone(), file.size_bytes)).collect();
        TableMessage { table: table.name().to_owned(), at, files }
    }

    /// Returns the table, the moment and the files.
    pub(super) fn open(self) -> Result<(Table, Option<At>, Vec<Arc<SourceFile>>)> {
        let TableMessage { table: name, at, files } = self;
        let open = |(file, size_bytes)| SourceFile::at(file, size_bytes).map(Arc::new);
        Ok((table(&name)?, at, files.into_iter().map(open).collect::<Result<_>>()?))
    }
}

/// Returns the table of a name.
pub(super) fn table(name: &str) -> Result<Table> {
    let found = Table::ALL.into_iter().find(|table| table.name() == name);
    found.ok_or_else(|| broken(&format!("{name} is not a table")))
}

/// Appends the bytes of a message.
pub(super) fn write(message: &impl Serialize, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.extend_from_slice(MAGIC.as_bytes());
    buffer.extend_from_slice(concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    let text = serde_json::to_vec(message).map_err(|error| broken(&error))?;
    buffer.extend_from_slice(&zstd::encode_all(&text[..], LEVEL)?);
    Ok(())
}

/// Returns whether bytes are one of our messages, and not one of Ballista's.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC.as_bytes())
}

/// Reads a message.
///
/// # Errors
/// It is of another version of the program, or damaged.
pub(super) fn read<M: for<'m> Deserialize<'m>>(bytes: &[u8]) -> Result<M> {
    let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or_else(|| broken(&"it does not start like one"))?;
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken(&"it has no version"))?;
    let version = String::from_utf8_lossy(&rest[..end]);
    if version != env!("CARGO_PKG_VERSION") {
        return Err(DataFusionError::Execution(format!(
            "a plan of memreel-fleet {version} came to memreel-fleet {}; install one version on all machines",
            env!("CARGO_PKG_VERSION")
        )));
    }
    let mut text = Vec::new();
    // What is larger is not of this program.
    zstd::Decoder::new(&rest[end + 1..])?.take(u64::from(MESSAGE_BYTES)).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| broken(&error))
}

pub(super) fn broken(why: &dyn std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("a plan of memreel-fleet is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n_files: u64) -> TableMessage {
        let file = |rank| Arc::new(SourceFile::at(format!("/run/a b%/rank{rank}.pickle"), rank).unwrap());
        let files: Vec<_> = (0..n_files).map(file).collect();
        TableMessage::new(Table::Allocations, Some(At::Event(7)), files.iter())
    }

    #[test]
    fn a_table_is_the_same_on_another_machine() {
        let mut bytes = Vec::new();
        write(&message(3), &mut bytes).unwrap();
        assert!(is_ours(&bytes) && !is_ours(&bytes[1..]));
        let (table, at, files) = read::<TableMessage>(&bytes).unwrap().open().unwrap();
        assert_eq!((table, at), (Table::Allocations, Some(At::Event(7))));
        assert_eq!(files.len(), 3);
        for (file, rank) in files.iter().zip(0..) {
            assert_eq!(file.file, format!("/run/a b%/rank{rank}.pickle"));
            assert_eq!((file.rank, file.job.as_deref()), (Some(rank), Some("a b%")));
            assert_eq!(file.size_bytes, rank.unsigned_abs());
        }
    }

    #[test]
    fn a_hundred_thousand_files_are_a_small_message() {
        let mut bytes = Vec::new();
        write(&message(100_000), &mut bytes).unwrap();
        assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());
    }

    #[test]
    fn other_versions_and_damaged_messages_are_refused() {
        let mut bytes = Vec::new();
        write(&message(3), &mut bytes).unwrap();
        for end in 0..bytes.len() {
            assert!(read::<TableMessage>(&bytes[..end]).is_err(), "{end} bytes");
        }
        let other = [b"memreel-fleet 0.0.0\n", &bytes[20..]].concat();
        let message = read::<TableMessage>(&other).unwrap_err().to_string();
        assert!(message.contains("memreel-fleet 0.0.0") && message.contains("one version"), "{message}");
    }
}
