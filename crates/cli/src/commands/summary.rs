//! `memreel summary`, for which `memreel FILE` is short: what a snapshot is, what it shows, and what to do next.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{analysis::Histories, history::Absence};

use crate::{
    exit::Exit,
    failure::Failure,
    findings::{
        logged::answer_logs,
        summary::{NextSteps, Summary},
    },
    input::{Opened, Opener, each::DeviceOfFile, each_file},
    options::Input,
    text::{
        Bytes, Page, clean, count,
        fit::{self, columns},
        print_text, shell_word,
        warnings::{absence, program_failure},
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The output shows what wrote the file, its devices, whether their histories are
complete, the memory at the peak and at the end, why the last request failed,
the sites that grow, the largest sites at the peak, and the commands that show
more. For a log, the output is the same as that of `memreel oom`.

Examples:
  memreel summary snapshot.pickle
  memreel snapshot.pickle
  memreel train.log

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let input = &options.input;
    let (of_logs, files) = answer_logs(input, opener, out)?;
    // A failed request is an answer, as for a snapshot.
    let of_logs = if of_logs == Exit::Broken { Exit::Fine } else { of_logs };
    if files.is_empty() {
        return Ok(of_logs);
    }
    let mut n_files = input.files.len() - files.len();
    let of_files = each_file(&files, opener, |opened| {
        let devices = opened.failed_first(input.device)?;
        let n_devices = devices.len();
        if !input.json {
            let gap = if n_files > 0 { "\n" } else { "" };
            write!(out, "{gap}")?;
            print_text(head(opened, devices.len(), out) + &absence(&opened.snapshot), out)?;
        }
        n_files += 1;
        let histories = Histories::new(&opened.snapshot);
        let (mut next, said) = (NextSteps::default(), Absence::of_file(&opened.snapshot));
        for device in devices {
            let asked = DeviceOfFile::new(opened, &histories, device, n_devices > 1);
            let summary = Summary::new(asked.history());
            next.add(&summary);
            if input.json {
                summary.print_json(&asked, out)?;
            } else {
                summary.print(said, out)?;
            }
        }
        if !input.json {
            print_next(&next, opened, out)?;
        }
        Ok(Exit::Fine)
    })?;
    Ok(of_logs.max(of_files))
}

/// Returns a line about the file.
fn head(opened: &Opened, n_devices: usize, page: &Page) -> String {
    let (bold, by) = (page.bold(), opened.writer());
    let conf = match opened.setting("PYTORCH_CUDA_ALLOC_CONF").unwrap_or_default() {
        "" => String::new(),
        conf => format!(", settings {}", clean(conf)),
    };
    let failed = program_failure(&opened.snapshot).map_or_else(String::new, |failed| format!("; {failed}"));
    let (name, devices) = (clean(&opened.name), count(n_devices, "device"));
    if let writer @ ("JAX" | "pprof") = opened.setting("memreel_profile").unwrap_or_default() {
        let live = Bytes(
            opened.snapshot.segments.iter().map(|segment| segment.total_size).fold(0, u64::saturating_add),
        );
        return format!("{bold}{name}{bold:#}: a profile of {writer}, {devices}: {live} live");
    }
    format!("{bold}{name}{bold:#}: a snapshot {by}, {devices}{conf}{failed}")
}

/// Prints the commands to type next.
fn print_next(next: &NextSteps, opened: &Opened, out: &mut Page) -> io::Result<()> {
    let file = if opened.is_stdin { "FILE".to_owned() } else { shell_word(&opened.name) };
    writeln!(out, "\nnext:")?;
    for (command, what) in next.commands() {
        let line = format!("  {what:34}  memreel {command} {file}");
        if columns(&line) <= out.width_left(0) {
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "  {what}\n{}", fit::command("    ", &["memreel", command, &file], out))?;
        }
    }
    writeln!(out, "  {:34}  memreel help", "all commands")
}
