//! `memreel-fleet query`: the answer to a query, printed or written.

use std::{
    io::{self, BufWriter, ErrorKind, IsTerminal, Write},
    sync::{Arc, OnceLock},
};

use datafusion::{error::DataFusionError, prelude::DataFrame};
use futures::TryStreamExt;

use super::{
    args::{Format, QueryOptions},
    exit::{Exit, Failure},
    output::{Answer, beside, whole},
    progress::Progress,
    suggest::with_suggestion,
};
use crate::Fleet;

/// The rows that a terminal gets without `--limit`.
const TERMINAL_ROWS: usize = 100;

pub(super) async fn run(options: &QueryOptions) -> Result<Exit, Failure> {
    if options.format == Format::Parquet && options.output.is_none() {
        return Err(Failure::usage("Parquet is not text; add --output FILE"));
    }
    let fleet = Arc::new(match &options.ballista {
        Some(scheduler) => Fleet::open_on(scheduler, &options.urls).await?,
        None => Fleet::open(&options.urls).await?,
    });
    let answer = fleet.sql(&options.sql).await.map_err(|error| wrong(&error, &options.sql))?;
    let progress = Progress::of(&fleet, 1);
    let printed = match &options.output {
        Some(path) => {
            let limit = limit(options, false);
            let (file, _) = write(&fleet, answer, options.format, limit, beside(path)?).await?;
            if fleet.are_all_broken() { Ok(None) } else { whole(file, path).map(|()| None) }
        }
        None => print(answer, options, &fleet).await,
    };
    drop(progress);
    fleet.problems().iter().for_each(|line| eprintln!("memreel-fleet: {line}"));
    if let Some(note) = printed? {
        eprintln!("memreel-fleet: {note}");
    }
    if fleet.are_all_broken() {
        return Err(Failure::unreadable("no file of the query could be read"));
    }
    Ok(Exit::Fine)
}

/// How many rows are wanted; `None` for all.
fn limit(options: &QueryOptions, is_terminal: bool) -> Option<usize> {
    match options.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => is_terminal.then_some(TERMINAL_ROWS),
    }
}

/// Prints the answer, and returns a note if there is more of it. A table is printed when it is complete, other formats as
/// their rows come.
async fn print(answer: DataFrame, options: &QueryOptions, fleet: &Fleet) -> Result<Option<String>, Failure> {
    let limit = limit(options, io::stdout().is_terminal());
    let mut out = Pipe::default();
    let has_more = if options.format == Format::Table {
        let (text, has_more) = write(fleet, answer, options.format, limit, Vec::new()).await?;
        if !fleet.are_all_broken() {
            let _ = out.write_all(&text);
        }
        has_more
    } else {
        match write(fleet, answer, options.format, limit, BufWriter::new(out.clone())).await {
            Ok((mut rest, has_more)) => {
                let _ = rest.flush();
                has_more
            }
            Err(_) if out.failed().is_some() => false,
            Err(failure) => return Err(failure),
        }
    };
    let _ = out.flush();
    match out.failed() {
        // Its reader has read enough.
        Some(ErrorKind::BrokenPipe) => return Ok(None),
        Some(kind) => return Err(io::Error::from(kind).into()),
        None => {}
    }
    let note = |limit| format!("the first {limit} rows; use --limit 0 to print all, or --limit N");
    Ok(limit.filter(|_| has_more).map(note))
}

/// Standard output, which keeps why it failed: writers of formats hide it.
#[derive(Clone, Default)]
struct Pipe(Arc<OnceLock<ErrorKind>>);

impl Pipe {
    fn failed(&self) -> Option<ErrorKind> {
        self.0.get().copied()
    }

    fn keep<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            if error.kind() != ErrorKind::Interrupted {
                let _ = self.0.set(error.kind());
            }
        })
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.keep(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.keep(io::stdout().flush())
    }
}

/// Writes at most `limit` rows; returns whether there are more.
async fn write<W: Write + Send>(
    fleet: &Fleet,
    answer: DataFrame,
    format: Format,
    limit: Option<usize>,
    out: W,
) -> Result<(W, bool), Failure> {
    let schema = Arc::new(answer.schema().as_arrow().clone());
    // One more row is asked for, to know whether there is more.
    let answer = match limit {
        Some(limit) if !is_explanation(&answer) => answer.limit(0, Some(limit.saturating_add(1)))?,
        _ => answer,
    };
    let (mut rows, plan) = fleet.run(answer).await?;
    let mut out = Answer::new(format, &schema, out)?;
    let mut n_left = limit.unwrap_or(usize::MAX);
    let mut has_more = false;
    loop {
        let next = tokio::select! {
            next = rows.try_next() => next?,
            // Here the process would just end; executors would go on.
            _ = tokio::signal::ctrl_c(), if fleet.is_remote() => {
                fleet.cancel(&plan).await;
                return Err(Failure::interrupted());
            }
        };
        let Some(batch) = next else { break };
        let n_rows = batch.num_rows().min(n_left);
        has_more |= n_rows < batch.num_rows();
        n_left -= n_rows;
        out.add(batch.slice(0, n_rows))?;
        if has_more {
            break;
        }
    }
    drop(rows);
    fleet.learn(&plan).await;
    Ok((out.finish()?, has_more))
}

/// `EXPLAIN` is the outermost part of a plan, which has no limit.
fn is_explanation(answer: &DataFrame) -> bool {
    use datafusion::logical_expr::LogicalPlan;
    matches!(answer.logical_plan(), LogicalPlan::Explain(_) | LogicalPlan::Analyze(_))
}

fn wrong(error: &DataFusionError, sql: &str) -> Failure {
    Failure::usage(with_suggestion(&error.strip_backtrace(), sql))
}
