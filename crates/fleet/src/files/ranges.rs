//! Parts of an object of a store, as the reader of Parquet asks for them; the bytes are counted.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    parquet::{
        arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
        errors::Result,
        file::metadata::{ParquetMetaData, ParquetMetaDataReader},
    },
    physical_plan::metrics::Count,
};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use object_store::ObjectStoreExt;

use super::SourceFile;

/// Reads ranges of a file.
pub(crate) struct Ranges {
    pub(crate) file: Arc<SourceFile>,
    /// The bytes that came from the store.
    pub(crate) n_bytes: Count,
}

impl AsyncFileReader for Ranges {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.n_bytes.add(usize::try_from(range.end - range.start).unwrap_or(0));
        self.file.store.get_range(&self.file.path, range).map_err(Into::into).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let n_bytes = self.file.size_bytes;
        async move { Ok(Arc::new(ParquetMetaDataReader::new().load_and_finish(self, n_bytes).await?)) }
            .boxed()
    }
}
