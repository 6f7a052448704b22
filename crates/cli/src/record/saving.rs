//! The separate process that keeps the tapes and saves them. It may be killed, also by a limit on memory, time or file
//! sizes: the status of the command is the program's, and the tapes remain.

#![forbid(unsafe_code)]

use std::{
    io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write},
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, OnceLock},
    time::Instant,
};

use memreel::integrate::Beside;

use super::{
    Metrics, bystanders::Bystanders, interrupted, keeper::Keeper, names::Names, options::Options,
    processes::Processes, run, saver::Saver, say::say, shared_files::SharedFiles,
};
use crate::{
    row::Maker,
    serve::{live::page::LivePage, snapshot_page},
    text::Page,
};

/// What the process needs.
pub(super) struct Saving<'a> {
    pub(super) options: &'a Options,
    /// Why nothing can be loaded in front of the program, if that is so.
    pub(super) unrecorded: Option<String>,
    pub(super) names: Names,
    /// The folder of the run.
    pub(super) folder: PathBuf,
    pub(super) metrics: Option<Metrics>,
    pub(super) page: Option<LivePage>,
    /// Makes the program whose commands answer the page.
    pub(super) make: Maker,
    /// Where the end of the run is printed before it goes to standard error.
    pub(super) text: Page,
}

/// This command's connection to the process, which reports when the program starts and how it ended.
pub(super) struct News(Option<PipeWriter>);

impl Saving<'_> {
    /// Starts the process. Without it the tapes remain, which [`finish`] reports.
    pub(super) fn start(self) -> (io::Result<Beside>, News) {
        let (reader, writer) = match io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => return (Err(error), News(None)),
        };
        // The program may make its own as soon as it runs.
        let shared_files = SharedFiles::before();
        let mut ends = Some((reader, writer));
        let started = Beside::start(|| {
            let Some((reader, writer)) = ends.take() else { return 0 };
            // So that the end of this command is the end of the news.
            drop(writer);
            self.run(reader, &shared_files);
            0
        });
        (started, News(ends.map(|(_, writer)| writer)))
    }

    /// Keeps the tapes while the program runs, and saves them.
    fn run(self, news: PipeReader, shared_files: &SharedFiles) {
        let Saving { options, unrecorded, names, folder, metrics, page, make, mut text } = self;
        let ended = Arc::new(OnceLock::new());
        interrupted::heed(folder.clone(), ended.clone());
        if let Some(metrics) = metrics {
            metrics.serve(&folder, options.metrics_sites);
        }
        let opened_page = page.and_then(|page| page.serve_run(&folder, options.print_address, make, say));
        let keeper = Keeper::start(&folder, options);
        let mut news = BufReader::new(news).lines().map_while(Result::ok);
        let Some(program) = news.next().and_then(|process| process.parse().ok()) else { return };
        let bystanders = Bystanders::start(program);
        let saver = Saver::start(Processes::new(&folder, names, program, options.keep_tape, keeper));
        // Without an end, this command was killed: the tapes remain.
        let Some(failure) = news.next() else { std::process::exit(0) };
        let _ = ended.set(Instant::now());
        let bystanders = run::bystanders(bystanders.finish(), &folder, program, unrecorded, options);
        let is_json = options.json;
        let waits = move || {
            if !is_json {
                say("saving the recording; press Ctrl-C to stop saving and keep the raw tapes");
            }
        };
        // A page in memory takes everything. What cannot be read or written is in the text; the status is the program's.
        let failure = Some(failure).filter(|failure| !failure.is_empty());
        let mut largest = None;
        let _ = saver.finish(failure, waits, |processes| {
            let printed = processes.print(options, bystanders, &mut text);
            largest = processes.largest().map(Path::to_owned);
            printed
        });
        // Nothing is left to be done, so a reader that has gone loses the lines alone.
        let _ = io::stderr().write_all(&text.into_bytes());
        shared_files.left().iter().for_each(|line| say(line));
        drop(opened_page);
        if let Some(path) = largest.filter(|_| options.view) {
            snapshot_page::serve(path, options.print_address, make, say);
        }
    }
}

impl News {
    /// Sends the PID of the program, once it runs.
    pub(super) fn started(&mut self, process: u32) {
        self.tell(&process.to_string());
    }

    /// Sends how the program failed; nothing if it did not fail.
    pub(super) fn ended(&mut self, failure: Option<&str>) {
        self.tell(failure.unwrap_or_default());
    }

    fn tell(&mut self, what: &str) {
        // The process may have been killed.
        let _ = self.0.as_mut().map(|pipe| pipe.write_all(format!("{what}\n").as_bytes()));
    }
}

/// Waits until everything is saved; `folder` is that of the run, `output` that of the snapshots. Returns the status of this
/// command in place of the program's, if a signal ended the saving.
pub(super) fn finish(saving: &io::Result<Beside>, folder: &Path, output: &Path) -> Option<i32> {
    let why = match saving {
        Ok(beside) => match beside.wait() {
            Ok(status) if status.success() => return None,
            Ok(status) if status.code().is_some_and(|code| code > 128) => return status.code(),
            ended => {
                interrupted::remove_unfinished_of(beside.process(), output);
                format!("the process that saves snapshots ended early ({})", of(&ended))
            }
        },
        Err(error) => format!("cannot start the process that saves snapshots ({error})"),
    };
    say(&interrupted::line(&why, &why, folder));
    None
}

fn of(ended: &io::Result<ExitStatus>) -> String {
    ended.as_ref().map_or_else(ToString::to_string, ToString::to_string)
}
