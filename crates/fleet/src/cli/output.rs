//! Where an answer goes, and in which format.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::RecordBatch,
        csv::{Writer as CsvWriter, WriterBuilder},
        datatypes::SchemaRef,
        json::LineDelimitedWriter,
        util::pretty::pretty_format_batches_with_schema,
    },
    error::DataFusionError,
    parquet::{
        arrow::ArrowWriter,
        basic::{Compression, ZstdLevel},
        file::properties::WriterProperties,
    },
};
use tempfile::NamedTempFile;

use super::{
    args::Format,
    exit::{Exit, Failure},
};
use crate::tables::page;

/// Prints the tables and their columns.
pub(super) fn tables() -> Result<Exit, Failure> {
    match io::stdout().write_all(page().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Fine),
    }
}

/// Writes batches in a format.
pub(super) enum Answer<W: Write + Send> {
    Table(W, SchemaRef, Vec<RecordBatch>),
    Csv(Box<CsvWriter<W>>),
    Json(LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> Answer<W> {
    pub(super) fn new(format: Format, schema: &SchemaRef, out: W) -> Result<Answer<W>, Failure> {
        Ok(match format {
            Format::Table => Answer::Table(out, schema.clone(), Vec::new()),
            Format::Csv => {
                let mut writer = WriterBuilder::new().with_header(true).build(out);
                // The header is there if no row is.
                writer.write(&RecordBatch::new_empty(schema.clone())).map_err(DataFusionError::from)?;
                Answer::Csv(Box::new(writer))
            }
            Format::Json => Answer::Json(LineDelimitedWriter::new(out)),
            Format::Parquet => Answer::Parquet(Box::new(parquet_writer(out, schema)?)),
        })
    }

    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        match self {
            Answer::Table(_, _, batches) => batches.push(batch),
            Answer::Csv(writer) => writer.write(&batch).map_err(DataFusionError::from)?,
            Answer::Json(writer) => writer.write(&batch).map_err(DataFusionError::from)?,
            Answer::Parquet(writer) => writer.write(&batch).map_err(DataFusionError::from)?,
        }
        Ok(())
    }

    /// Writes what is left and returns where it went.
    pub(super) fn finish(self) -> Result<W, Failure> {
        Ok(match self {
            Answer::Table(mut out, schema, batches) => {
                let text =
                    pretty_format_batches_with_schema(schema, &batches).map_err(DataFusionError::from)?;
                writeln!(out, "{text}")?;
                out
            }
            Answer::Csv(writer) => writer.into_inner(),
            Answer::Json(mut writer) => {
                writer.finish().map_err(DataFusionError::from)?;
                writer.into_inner()
            }
            Answer::Parquet(writer) => writer.into_inner().map_err(DataFusionError::from)?,
        })
    }
}

/// Returns a writer of Parquet whose columns are compressed.
pub(super) fn parquet_writer<W: Write + Send>(
    out: W,
    schema: &SchemaRef,
) -> Result<ArrowWriter<W>, DataFusionError> {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    Ok(ArrowWriter::try_new(out, Arc::clone(schema), Some(properties))?)
}

/// A file under a temporary name in the folder of its path; [`whole`] renames it.
pub(super) fn beside(path: &Path) -> Result<NamedTempFile<File>, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| unwritable(path, error))
}

/// Gives a finished file its name.
pub(super) fn whole(file: NamedTempFile<File>, path: &Path) -> Result<(), Failure> {
    file.persist(path).map(drop).map_err(|error| unwritable(path, error.error))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::unreadable(format!("cannot write {}: {error}", path.display()))
}
