//! `memreel ranks`: which of many ranks differ from the others, and why.

#![forbid(unsafe_code)]

mod by_step;
mod compared;
mod json;
mod read;
mod text;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use compared::{All, Broken};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{
        Opener,
        files::{NamedFiles, named},
        is_stdin, name,
    },
    options::Input,
    row::{Maker, Program},
    serve::view::save,
    text::Page,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first lines name the rank that differs most, and why. Then follows a line
for each rank: its peak memory in use, with the scope and time of the peak; its
peak reserved memory, and how much of it was not in any block; how many requests
failed; the first step (or time) in which its peak differs; and the owner with
the most memory, if the stacks name owners. Ranks that differ from the median
rank come first, each with the reasons: its peaks, the first step that differs,
and the sites and owners at the peak. A figure differs if its distance from the
median is more than 5 % of the median peak and more than four times the median
distance. If there are two ranks and requests failed on one of them, that rank
is compared with the other.

FILE may be a folder or a pattern in quotes; the rank is the number after `rank`
in the name of a file or its folder. Ranks are aligned by their outermost scopes
(step#0, step#1 and so on), or without scopes by the time since their first
event. Ranks are compared by the memory on the GPUs where they have blocks; use
--device N to compare other memory. A file that cannot be read has its own line.

Examples:
  memreel ranks snapshots/
  memreel ranks 'run-rank*.pickle' --by step
  memreel ranks run-rank*.pickle --html ranks.html

Exit status: 0 no rank differs; 1 a rank differs or ran out of memory; 2 usage
error; 3 a file cannot be read or is not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Show at most COUNT ranks that are not outliers
    #[arg(short, value_name = "COUNT", default_value_t = 10)]
    n: usize,

    /// Print one line per step instead, with the ranks that have the lowest and the highest peak
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<By>,

    /// Also write the outliers and some other ranks as a page for a browser
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

/// What the lines of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum By {
    /// The outermost scopes
    Step,
}

/// The most ranks on a page, which contains all of their pictures.
const MAX_OF_PAGE: usize = 16;

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    let (input, opener) = (&options.input, &program.opener);
    let NamedFiles { files, broken } = named(&input.files, opener)?.once()?;
    let broken =
        broken.into_iter().map(|(path, why)| Broken { path, rank: None, why, exit: Exit::Unreadable });
    if options.html.is_some() && files.iter().any(|file| is_stdin(file)) {
        return Err(Failure::usage("standard input can only be read once; --html needs files"));
    }
    let all = All::new(read::read(files, input.device, opener), broken.collect());
    if all.ranks.is_empty() {
        return refused(all, opener);
    }
    match (options.by, input.json) {
        (None, false) => text::print(&all, options.n, out)?,
        (None, true) => json::print(&all, out)?,
        (Some(By::Step), false) => by_step::print(&all, out)?,
        (Some(By::Step), true) => json::print_steps(&all, out)?,
    }
    if let Some(path) = &options.html {
        page(&all, path, program.make)?;
    }
    let is_fine = all.n_outliers() == 0 && all.mostly_failed().is_empty();
    let of_ranks = if is_fine { Exit::Fine } else { Exit::Broken };
    Ok(all.broken.iter().map(|one| one.exit).fold(of_ranks, Exit::max))
}

/// Reports the first files, of which none can be read; of a question, they are the refusal.
fn refused(all: All, opener: &Opener) -> Result<Exit, Failure> {
    let n_left = all.broken.len().saturating_sub(text::MAX_BROKEN);
    let worst = all.broken.iter().map(|one| one.exit).fold(Exit::Fine, Exit::max);
    let shown = all.broken.into_iter().take(text::MAX_BROKEN);
    let mut messages: Vec<String> =
        shown.map(|Broken { path, why, .. }| format!("{}: {why}", name(&path))).collect();
    messages.extend((n_left > 0).then(|| format!("{n_left} more cannot be read")));
    if opener.is_question() {
        return Err(Failure::Message(worst, messages.join("\n")));
    }
    for message in messages {
        Failure::Message(worst, message).report()?;
    }
    Ok(worst)
}

/// Writes the page of the first ranks.
fn page(all: &All, path: &Path, make: Maker) -> Result<(), Failure> {
    let mut files: Vec<PathBuf> = all.ranks.iter().map(|one| one.path.clone()).collect();
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    files.truncate(MAX_OF_PAGE);
    if files.is_empty() {
        return Err(Failure::Message(
            Exit::Unreadable,
            "no rank can be read, so there is no page".to_owned(),
        ));
    }
    save(&files, path, "ranks", make).map(drop)
}
