//! `memreel view`: shows pictures of recordings in a browser.

#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};

use tempfile::NamedTempFile;

#[cfg(target_os = "linux")]
use crate::serve::live::{self, page::LivePage};
use crate::{
    exit::Exit,
    failure::Failure,
    input::files::{NamedFiles, named},
    row::Program,
    serve::{
        address_file::{AddressFile, ssh_line},
        browser::opened,
        view::{Serving, refused, save, serve},
    },
    text::{Bytes, Page, ShownPath},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page is served on 127.0.0.1, and only to clients that know its full address,
so other users of the machine cannot read it. It works offline, and opens while
the file is still being read. If you give several files, they are shown as the
ranks of one run; two files can also be compared.

--html writes one self-contained file, which opens offline without memreel. It
contains an overview of the whole history, and full detail around the peak and
failed requests and at the end; the page says what has been left out.

--live follows running programs that are recorded by `memreel record` or into a
tape; FILE is then a PID, a tape, or the folder of a run. `Pause and explore`
opens all views with the events recorded so far.

Stop the server with Ctrl-C or from the page's menu; --idle stops it after a
period without requests.

Examples:
  memreel view snapshot.pickle
  memreel view rank0.pickle rank1.pickle
  memreel view run/                                     each rank of a run
  memreel view --html bug.html snapshot.pickle          a file for a bug report
  memreel view --live 4711                              a running program
  memreel view --port 8080 --no-open snapshot.pickle    without a local display

Exit status: 0 stopped normally; 2 usage error; 3 a file is missing, or the port
is in use.")]
pub(crate) struct Options {
    /// Snapshots or tapes, folders that contain them, or glob patterns; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Follow running programs, each given as a PID, a tape, or the folder of a run
    #[arg(long, conflicts_with = "html")]
    live: bool,

    /// Listen on this port [default: any free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address without opening a browser
    #[arg(long)]
    no_open: bool,

    /// Print the address even if the output is not a terminal. Anyone who can read the output (a log, for
    /// example) can then open the page. Without this option, the address is written to a file that only you
    /// can read
    #[arg(long)]
    print_address: bool,

    /// Write a self-contained page of at most 20 MB to this file instead of serving it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open", "print_address", "idle"])]
    html: Option<PathBuf>,

    /// Stop after this many minutes without any requests
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    idle: Option<Duration>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let read = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes < 1e6);
    let minutes = read.ok_or_else(|| format!("{text:?} is not a number of minutes; use for example 30"))?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    if options.live {
        return follow(options, program, out);
    }
    let NamedFiles { files, broken } = named(&options.files, &program.opener)?;
    if let Some((path, why)) = broken.first() {
        return Err(Failure::Message(Exit::Unreadable, why.clone()).of_file(&path.display().to_string()));
    }
    for path in files.iter().filter(|path| path.as_os_str() != "-") {
        path.metadata().map_err(|error| {
            Failure::Message(Exit::Unreadable, format!("{}: cannot be read: {error}", ShownPath(&path)))
        })?;
    }
    if let Some(path) = &options.html {
        let exit = save(&files, path, "timeline", program.make)?;
        let bytes = path.metadata().map_or(0, |written| written.len());
        writeln!(out, "wrote {} ({}); open it in a browser", ShownPath(&path), Bytes(bytes))?;
        return Ok(exit);
    }
    let serving = Serving { paths: files, port: options.port, idle: options.idle, make: program.make };
    let mut said = Said::new(options, out);
    let served = serve(serving, |url, port| said.say(url, port));
    said.end(served)
}

/// Serves the page that follows programs.
#[cfg(target_os = "linux")]
fn follow(options: &Options, program: &Program, out: &mut impl Write) -> Result<Exit, Failure> {
    // A port that is taken is reported before anything is searched for.
    let LivePage(address) = LivePage::listen(options.port)?;
    let live = live::follow(&options.files, program.make)?;
    let mut said = Said::new(options, out);
    said.say(&address.url(), address.port());
    said.end(address.serve_live(options.idle, live))
}

#[cfg(not(target_os = "linux"))]
fn follow(_options: &Options, _program: &Program, _out: &mut impl Write) -> Result<Exit, Failure> {
    Err(Failure::usage(
        "`memreel view --live` needs Linux; on this system memreel only reads what was \
         recorded there",
    ))
}

/// Says the address of a page, and opens it.
struct Said<'a, W> {
    options: &'a Options,
    out: &'a mut W,
    printed: io::Result<()>,
    place: AddressFile,
    opened: Option<NamedTempFile>,
}

impl<'a, W: Write> Said<'a, W> {
    fn new(options: &'a Options, out: &'a mut W) -> Self {
        Said { options, out, printed: Ok(()), place: AddressFile::default(), opened: None }
    }

    fn say(&mut self, url: &str, port: u16) {
        let is_seen = self.options.print_address || io::stdout().is_terminal();
        let line = self.place.say(url, is_seen);
        self.printed = print(&line, port, self.out);
        if !self.options.no_open {
            self.opened = opened(url);
        }
    }

    /// Returns the status of a server that has ended.
    fn end(self, served: io::Result<()>) -> Result<Exit, Failure> {
        served.map_err(|error| Failure::Message(Exit::Unreadable, refused(self.options.port, &error)))?;
        drop((self.opened, self.place));
        self.printed?;
        Ok(Exit::Fine)
    }
}

fn print(line: &str, port: u16, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{line}")?;
    if let Some(line) = ssh_line(port) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_numbers() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        for text in ["", "-1", "0", "NaN", "inf", "ten"] {
            assert!(minutes(text).unwrap_err().contains("is not a number of minutes"), "{text}");
        }
    }
}
