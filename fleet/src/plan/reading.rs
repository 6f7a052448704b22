//! The reading of one file: a partition of a scan.

use std::sync::Arc;

use datafusion::{
    arrow::array::RecordBatch,
    error::{DataFusionError, Result},
};
use tokio::sync::{Semaphore, mpsc::Sender};

use super::{
    counters::Counters,
    problems::Problems,
    rows_file,
    sink::{Sink, Stopped, Wanted},
};
use crate::{
    files::{Content, Fetched, Opened, SourceFile},
    tables::{At, Table},
};

/// A file that is to be read, with what is wanted of it.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) table: Table,
    pub(super) at: Option<At>,
    pub(super) file: Arc<SourceFile>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) problems: Arc<Problems>,
    pub(super) counters: Counters,
    /// Lets as many files be open as the session has partitions, however many files there are.
    pub(super) turns: Arc<Semaphore>,
}

impl Reading {
    /// Reads the file and sends its rows. A file that cannot be read is a problem and not an error.
    pub(super) async fn run(self, sender: Sender<Result<RecordBatch>>) -> Result<()> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|error| DataFusionError::External(Box::new(error)))?;
        if sender.is_closed() {
            return Ok(());
        }
        let (file, problems, counters) = (self.file.clone(), self.problems.clone(), self.counters.clone());
        counters.files.add(1);
        let stopped = match file.content {
            Content::Rows(_) => rows_file::read(&file, &self.wanted, &sender, &counters).await,
            Content::Snapshot => match Fetched::of(&file).await {
                Ok(fetched) => {
                    let timer = self.counters.baseline.elapsed_compute().clone();
                    let read = move || {
                        let _timer = timer.timer();
                        self.read(&fetched, &sender)
                    };
                    tokio::task::spawn_blocking(read)
                        .await
                        .unwrap_or_else(|error| Err(Stopped::broken(&format!("its reader failed: {error}"))))
                }
                Err(error) => Err(Stopped::broken(&error)),
            },
        };
        drop(turn);
        match stopped {
            Ok(()) | Err(Stopped::Query(None)) => {
                problems.read(&file.file);
                Ok(())
            }
            Err(Stopped::Query(Some(error))) => Err(error),
            Err(Stopped::Broken(why)) => {
                counters.broken.add(1);
                problems.broken(&file.file, why);
                Ok(())
            }
        }
    }

    fn read(&self, fetched: &Fetched, sender: &Sender<Result<RecordBatch>>) -> Result<(), Stopped> {
        let (opened, missing) = Opened::new(fetched).map_err(|error| Stopped::broken(&error))?;
        self.counters.bytes.add(usize::try_from(self.file.size_bytes).unwrap_or(usize::MAX));
        missing.iter().for_each(|what| self.problems.note(&self.file.file, what));
        let mut sink = Sink::new(&self.file, &self.wanted, sender, &self.counters);
        self.table.read(&opened, self.at, &mut sink)
    }
}
