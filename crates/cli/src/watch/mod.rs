//! `memreel watch`: reports what recorded processes hold while they run.
//!
//! `lines` prints it, and on a terminal `terminal` draws a `screen` of the `view`, whose keys are in `keys`.

#![forbid(unsafe_code)]

mod keys;
mod lines;
mod screen;
mod terminal;
mod view;

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use crate::{
    exit::Exit,
    failure::Failure,
    input::Opener,
    run::{all::All, detail::Detail, figures::Figures, found::Source},
    serve::metrics::Metrics,
    text::Page,
};

/// The time between two lines of a process, at least.
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel watch` reads the tapes that the programs record into, so the programs
are not affected. Without arguments, it watches all recorded processes of this
user on this machine, including those that start later.

On a terminal it shows a screen; press `?` for its keys. Otherwise it prints one
line per second for each device of each process, until all processes have ended.
Growth is shown twice: over the last minute, and since `memreel watch` started.

--metrics serves metrics for Prometheus instead, and prints their address. It
stops when all named processes have ended. The watched programs need neither a
port nor an additional thread.

Examples:
  memreel watch
  memreel watch 4711
  memreel watch --once --json run.tape
  memreel watch --metrics 127.0.0.1:9464

Exit status: 0 all have ended; 2 usage error, or nothing to watch; 3 a file or a
process cannot be read.")]
pub(crate) struct Options {
    /// Wait one second, print what is held, and exit; if any processes are running, show only those
    #[arg(long)]
    once: bool,

    /// Print one JSON object per device of each process, one per line
    #[arg(long)]
    json: bool,

    /// Show at most COUNT owners, and COUNT sites in each list
    #[arg(short, value_name = "COUNT", default_value_t = 5)]
    n: usize,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics, for example 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["once", "json", "n"])]
    metrics: Option<String>,

    /// Include this many call sites per device, with their names, in the metrics
    #[arg(long, value_name = "COUNT", requires = "metrics", default_value_t = 0, hide_default_value = true)]
    metrics_sites: usize,

    /// Serve metrics only to clients that send the token in this file, as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE", requires = "metrics")]
    metrics_token: Option<PathBuf>,

    /// PIDs, tapes, or the folders of runs
    #[arg(value_name = "RUN|PID|TAPE")]
    sources: Vec<String>,
}

pub(crate) fn run(options: &Options, _opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let sources = options.sources.iter().map(|word| Source::of(word)).collect::<Result<Vec<_>, _>>()?;
    let listen = |address| Metrics::listen(address, options.metrics_token.as_deref());
    let metrics = options.metrics.as_deref().map(listen).transpose()?;
    let detail = match metrics {
        Some(_) => Detail::by_metrics(options.metrics_sites),
        None => Detail::by_a_person(options.n),
    };
    let mut all = All::new(sources, detail);
    all.begin()?;
    if metrics.is_none() && !options.once && !options.json && io::stdout().is_terminal() {
        return terminal::run(all);
    }
    all.refused.values().for_each(|why| eprintln!("memreel: {why}"));
    if all.is_empty() && !(metrics.is_some() && all.is_of_this_user()) {
        return Err(Failure::usage(
            "no recorded process to watch; start one with `memreel record -- PROGRAM`",
        ));
    }
    if let Some(metrics) = metrics {
        writeln!(out, "{}", metrics.address())?;
        out.flush()?;
        metrics.warning().iter().for_each(|line| eprintln!("memreel: {line}"));
        metrics.serve_watched(all)?;
        return Ok(Exit::Fine);
    }
    all.look();
    loop {
        thread::sleep(all.pause(SECOND));
        if !options.once {
            all.find()?;
        }
        all.look();
        let mut figures = all.figures();
        let n_left_out =
            if options.once && !options.json { leave_out_ended(&mut figures, &options.sources) } else { 0 };
        for figures in figures {
            if options.json {
                writeln!(out, "{}", serde_json::to_string(&figures).map_err(io::Error::from)?)?;
            } else if options.once {
                lines::print(&figures, out)?;
            } else {
                writeln!(out, "{}", lines::line(&figures))?;
            }
        }
        if n_left_out > 0 {
            writeln!(out, "not shown: processes that have ended: {n_left_out} (--json has them)")?;
        }
        out.flush()?;
        if options.once || !all.is_running() {
            return Ok(Exit::Fine);
        }
        all.forget_ended();
    }
}

/// Leaves out the processes that have ended, if others run, but not a tape that was named. Returns how many.
fn leave_out_ended(figures: &mut Vec<Figures>, named: &[String]) -> usize {
    if figures.iter().all(|of| !of.is_running) {
        return 0;
    }
    let stays = |of: &Figures| of.is_running || named.contains(&of.file);
    let ended: BTreeSet<String> = figures.iter().filter(|of| !stays(of)).map(|of| of.file.clone()).collect();
    figures.retain(stays);
    ended.len()
}
