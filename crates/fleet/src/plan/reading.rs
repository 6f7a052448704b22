//! The reading of a partition: a file, or several one after the other.

use std::sync::Arc;

use datafusion::{
    arrow::array::RecordBatch,
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
};
use futures::TryStreamExt;
use tokio::sync::{Semaphore, mpsc::Sender};

use super::{
    file_list::files_of,
    problems::{Problem, Problems},
    rows_file,
};
use crate::{
    columns::Table,
    files::{Content, Fetched, Opened, SourceFile},
    sink::{Counters, Sink, Stopped, Wanted},
    tables::At,
};

/// What is read of the files of a partition, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) table: Table,
    pub(super) at: Option<At>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) problems: Arc<Problems>,
    pub(super) counters: Counters,
    /// Lets as many files be open as the session has partitions, however many files there are.
    pub(super) turns: Arc<Semaphore>,
}

impl Reading {
    /// Reads the files of a list and sends their rows. A file that cannot be read is a problem and not an error.
    pub(super) async fn run(
        self,
        mut list: SendableRecordBatchStream,
        sender: Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        while let Some(batch) = list.try_next().await? {
            if !self.read(files_of(&batch)?, &sender).await? {
                break;
            }
        }
        Ok(())
    }

    /// Reads files; returns whether more rows are wanted.
    async fn read(&self, files: Vec<SourceFile>, sender: &Sender<Result<RecordBatch>>) -> Result<bool> {
        for file in files.into_iter().map(Arc::new) {
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let turn = turn.map_err(|error| DataFusionError::External(Box::new(error)))?;
            if sender.is_closed() {
                return Ok(false);
            }
            self.counters.files.add(1);
            let done = self.one(&file, sender).await;
            drop(turn);
            match done {
                Ok(()) => {}
                Err(Stopped::Query(None)) => return Ok(false),
                Err(Stopped::Query(Some(error))) => return Err(error),
                Err(Stopped::Broken(why)) => {
                    self.counters.broken.add(1);
                    self.problem(Problem::Skipped { file: file.file.clone(), why });
                }
            }
        }
        Ok(true)
    }

    fn problem(&self, problem: Problem) {
        self.counters.problem(problem.counter());
        self.problems.add(problem);
    }

    async fn one(&self, file: &Arc<SourceFile>, sender: &Sender<Result<RecordBatch>>) -> Result<(), Stopped> {
        if let Content::Rows(_) = file.content {
            return rows_file::read(file, &self.wanted, sender, (&self.counters, &self.problems)).await;
        }
        let fetched = Fetched::of(file).await.map_err(|error| Stopped::broken(&error))?;
        let (reading, file, sender) = (self.clone(), Arc::clone(file), sender.clone());
        let read = move || {
            let _timer = reading.counters.baseline.elapsed_compute().timer();
            reading.snapshot(&file, &fetched, &sender)
        };
        let failed = |error| Err(Stopped::broken(&format!("its reader failed: {error}")));
        tokio::task::spawn_blocking(read).await.unwrap_or_else(failed)
    }

    fn snapshot(
        &self,
        file: &SourceFile,
        fetched: &Fetched,
        sender: &Sender<Result<RecordBatch>>,
    ) -> Result<(), Stopped> {
        let (opened, missing) = Opened::new(fetched).map_err(|error| Stopped::broken(&error))?;
        // Rows may be taken, and the query end, before the file does.
        self.problems.read(&file.file);
        self.counters.bytes.add(usize::try_from(file.size_bytes).unwrap_or(usize::MAX));
        for what in missing {
            self.problem(Problem::Incomplete { file: file.file.clone(), what });
        }
        let mut sink = Sink::new(file, &self.wanted, sender, &self.counters);
        self.table.read(&opened, self.at, &mut sink)
    }
}
