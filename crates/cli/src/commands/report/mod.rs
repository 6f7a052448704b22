//! `memreel report`: one page about a snapshot, for a report of a defect or a job of continuous integration.

#![forbid(unsafe_code)]

mod contents;
mod page;

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
};

use memreel_snapshot::{Snapshot, place, rewrite::Slim};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_file, is_stdin},
    options::{Devices, device, output, replaces_no_snapshot},
    text::{Page, ShownPath},
};

use page::{Part, html, markdown};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The report shows why a request failed or what grew, the figures at that moment,
the largest call sites with their callers, the memory over time, the settings
that were tried, and how the snapshot was recorded: at most 60 lines of Markdown
per device, some of them folded. If a file has several devices, the report
covers those on which requests failed or, if there are none, the one with the
highest peak. If the output path ends in .html, the report is a self-contained
HTML page; for any other path it is Markdown.

--summary appends the Markdown to the file named by GITHUB_STEP_SUMMARY, which
GitHub shows on the job's page.

Examples:
  memreel report snapshot.pickle -o report.md
  memreel report --anonymise snapshot.pickle -o report.html
  memreel report --summary snapshot.pickle

Exit status: 0 written; 1 with --check, a request failed or a history is
inconsistent; 2 usage error; 3 a file cannot be read or written, or is not a
snapshot.")]
pub(crate) struct Options {
    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Report on this device, on the heap, or on all
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Write to this file instead of printing Markdown to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the program's names and paths, so that the report can be shared
    #[arg(long)]
    anonymise: bool,

    /// Exit with status 1 if a request failed or a history is inconsistent
    #[arg(long)]
    check: bool,

    /// Append the report to the job summary (the file named by GITHUB_STEP_SUMMARY)
    #[arg(long)]
    summary: bool,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let summary = if options.summary { Some(summary_path()?) } else { None };
    let mut parts: Vec<Part> = Vec::new();
    let exit = each_file(&options.files, opener, |opened| {
        if options.anonymise {
            let hidden = Slim::new().anonymise(true).apply(Snapshot::clone(&opened.snapshot))?;
            return contents::add(&opened.changed(hidden, "snapshot"), options.device, &mut parts);
        }
        contents::add(opened, options.device, &mut parts)
    })?;
    let title = "memreel report";
    let of_path = |path: &Path| match path.extension() {
        Some(extension) if extension == "html" || extension == "htm" => html(title, &parts),
        _ => markdown(&parts),
    };
    if let Some(path) = &summary {
        let added = place::append(path).and_then(|mut file| file.write_all(markdown(&parts).as_bytes()));
        added.map_err(|error| Failure::unwritable(path, error))?;
    }
    match &options.output {
        Some(path) if !is_stdin(path) => {
            replaces_no_snapshot(path, &options.files)?;
            output::replace(path, |file| file.write_all(of_path(path).as_bytes()))?;
            eprintln!("memreel: wrote {}", ShownPath(&path));
        }
        None if options.summary => {}
        _ => write!(out, "{}", markdown(&parts))?,
    }
    Ok(if exit == Exit::Broken && !options.check { Exit::Fine } else { exit })
}

fn summary_path() -> Result<PathBuf, Failure> {
    let path = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or_else(|| {
        Failure::usage(
            "GITHUB_STEP_SUMMARY is not set; --summary is for GitHub jobs, elsewhere use -o report.md",
        )
    })
}
