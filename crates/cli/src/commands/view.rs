//! `memreel view`: pictures of recordings in a browser.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use memreel_snapshot::pickle;
use tempfile::{Builder, NamedTempFile};

#[cfg(target_os = "linux")]
use super::watch::live;
#[cfg(target_os = "linux")]
use crate::view::Address;
use crate::{
    exit::Exit,
    failure::Failure,
    input::files::{Named, named},
    options::output::replaces_no_snapshot,
    text::{bytes::Bytes, shown::Shown},
    view::{Serving, html, serve},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page is served on 127.0.0.1, and only to those who have its address: nobody
else on the machine can read it, and it loads nothing from a network. It is
there while the file is still read. Several files are ranks of one run, or two
files that the page compares.

--html writes one file that opens without memreel and without a network. It has
pictures of the whole history, and everything around the peak, failed requests
and the end; it shows what it leaves out.

--live follows programs that `memreel record` or a tape records while they run:
FILE is then the folder of a run, the number of a process or a tape. `Pause and
look` opens the views on the events so far.

The server ends with Ctrl-C, with End in the page's menu, or after --idle.

Example:
  memreel view snapshot.pickle
  memreel view rank0.pickle rank1.pickle
  memreel view run/                                      each rank of a run
  memreel view --html bug.html snapshot.pickle           one file for a bug report
  memreel view --live 4711                               a program while it runs
  memreel view --port 8080 --no-open snapshot.pickle     on a machine without a display

Exit status: 0 ended, 2 wrong usage, 3 a file that is not there, or a port that is
taken.")]
pub(crate) struct Options {
    /// Snapshots or tapes, folders and patterns of them; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Follow programs while they run: folders of runs, numbers of processes, or tapes
    #[arg(long, conflicts_with = "html")]
    live: bool,

    /// Listen on this port instead of a free one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address, and open no browser
    #[arg(long)]
    no_open: bool,

    /// Print the address also where the output is no terminal, such as a log that others read; it is a key to the page.
    /// Without it, a file that only you can read has the address there
    #[arg(long)]
    print_address: bool,

    /// Write a self-contained page to this file instead of serving it; at most 20 MB
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open", "print_address", "idle"])]
    html: Option<PathBuf>,

    /// End after this number of minutes without a request
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    idle: Option<Duration>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let read = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes < 1e6);
    let minutes = read.ok_or_else(|| format!("{text:?} is not a number of minutes; use for example 30"))?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    if options.live {
        return follow(options, out);
    }
    let Named { files, broken } = named(&options.files)?;
    if let Some((path, why)) = broken.first() {
        return Err(Failure::Message(Exit::Unreadable, why.clone()).of_file(&path.display().to_string()));
    }
    for path in files.iter().filter(|path| path.as_os_str() != "-") {
        path.metadata().map_err(|error| {
            Failure::Message(Exit::Unreadable, format!("{}: cannot be read: {error}", Shown(&path)))
        })?;
    }
    if let Some(path) = &options.html {
        let exit = save(&files, path, "timeline")?;
        let bytes = path.metadata().map_or(0, |written| written.len());
        writeln!(out, "wrote {} ({}); open it in a browser", Shown(&path), Bytes(bytes))?;
        return Ok(exit);
    }
    let serving = Serving { paths: files, port: options.port, idle: options.idle };
    let mut said = Said::new(options, out);
    let served = serve(serving, |url, port| said.say(url, port));
    said.end(served)
}

/// Serves the page that follows programs.
#[cfg(target_os = "linux")]
fn follow(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    // A port that is taken is said before anything is looked for.
    let LivePage(address) = LivePage::listen(options.port)?;
    let live = live::follow(&options.files)?;
    let mut said = Said::new(options, out);
    said.say(&address.url(), address.port());
    said.end(address.serve_live(options.idle, live))
}

/// The files of a page that is served; they are removed with this.
#[cfg(target_os = "linux")]
pub(super) struct Kept {
    _place: AddressFile,
    _opened: Option<NamedTempFile>,
}

/// A port at which the page that follows programs will be.
#[cfg(target_os = "linux")]
pub(super) struct LivePage(Address);

#[cfg(target_os = "linux")]
impl LivePage {
    /// Takes a port; 0 lets the system choose.
    pub(super) fn listen(port: u16) -> Result<LivePage, Failure> {
        let taken = Address::take(port);
        taken.map(LivePage).map_err(|error| Failure::Message(Exit::Unreadable, refused(port, &error)))
    }

    /// Serves the page of a run until this process ends or the page is ended, says where it is, and opens it. Returns what
    /// is to be kept while the page is opened.
    pub(super) fn serve_run(self, run: &Path, prints: bool, say: impl Fn(&str)) -> Option<Kept> {
        let LivePage(address) = self;
        let (url, port) = (address.url(), address.port());
        let served = live::follow_run(run).and_then(|live| {
            let serve = move || address.serve_live(None, live);
            thread::Builder::new().name("live-page".into()).spawn(serve)
        });
        // The program runs all the same.
        if let Err(error) = served {
            say(&format!("the live page cannot be served: {error}"));
            return None;
        }
        let mut place = AddressFile::default();
        let is_seen = prints || io::stderr().is_terminal();
        let line = place.say(&url, is_seen);
        say(&format!("the live page is {} {line}", if is_seen { "at" } else { "open;" }));
        ssh_line(port).iter().for_each(|line| say(line));
        Some(Kept { _place: place, _opened: opened(&url) })
    }
}

#[cfg(not(target_os = "linux"))]
fn follow(_options: &Options, _out: &mut impl Write) -> Result<Exit, Failure> {
    Err(Failure::usage("`memreel view --live` needs Linux; here memreel reads what was recorded there"))
}

/// A file that has the address of a page, where others may read what is printed. It is removed with this.
#[derive(Default)]
struct AddressFile(Option<NamedTempFile>);

impl AddressFile {
    /// Returns the address, if those who may have it see it; else where it is.
    fn say(&mut self, url: &str, is_seen: bool) -> String {
        if is_seen {
            return url.to_owned();
        }
        let mut builder = Builder::new();
        // Such a file is its user's alone.
        let file = builder.prefix("memreel-view-").suffix(".address").tempfile().and_then(|mut file| {
            writeln!(file, "{url}")?;
            Ok(file)
        });
        match file {
            Ok(file) => {
                let path = Shown(file.path()).to_string();
                self.0 = Some(file);
                format!("the address is in {path}, which only you can read; --print-address prints it")
            }
            Err(error) => format!("no file can have the address ({error}); --print-address prints it"),
        }
    }
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

/// Writes the page that is one file, which begins with a view: the whole of it or nothing.
pub(crate) fn save(files: &[PathBuf], path: &Path, view: &str) -> Result<Exit, Failure> {
    let unreadable = |why: String| Failure::Message(Exit::Unreadable, why);
    replaces_no_snapshot(path, files)?;
    let page = html(files, view).map_err(unreadable)?;
    let cannot = |error: io::Error| unreadable(format!("{}: cannot be written: {error}", Shown(&path)));
    pickle::replace(path, |file| file.write_all(page.as_bytes())).map_err(cannot)?;
    Ok(Exit::Fine)
}

fn refused(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is taken; choose another with --port, or leave it out")
        }
        io::ErrorKind::PermissionDenied => format!("port {port} is not permitted; choose one above 1023"),
        _ => format!("the page cannot be served: {error}"),
    }
}

fn print(line: &str, port: u16, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{line}")?;
    if let Some(line) = ssh_line(port) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Returns how to see the page from elsewhere, if the terminal is one of SSH.
fn ssh_line(port: u16) -> Option<String> {
    let server = ssh_server()?;
    Some(format!("on your own machine: ssh -L {port}:127.0.0.1:{port} {server}, then open the address there"))
}

/// Returns the user and the address of this machine, if the terminal is one of SSH.
fn ssh_server() -> Option<String> {
    let connection = env::var("SSH_CONNECTION").ok()?;
    let address = connection.split(' ').nth(2)?.to_owned();
    let user = env::var("USER").ok();
    Some(user.map_or_else(|| address.clone(), |user| format!("{user}@{address}")))
}

/// Whether a browser that is started here is seen.
pub(super) fn has_display() -> bool {
    !is_remote() && (cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
}

/// Whether the terminal is one of SSH.
pub(super) fn is_remote() -> bool {
    is_set("SSH_CONNECTION") || is_set("SSH_TTY")
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| value != OsString::new())
}

/// The program that opens the user's browser.
pub(super) const OPENER: &str = if cfg!(windows) {
    "explorer"
} else if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens the user's browser where it is seen.
fn opened(url: &str) -> Option<NamedTempFile> {
    if has_display() { open(url) } else { None }
}

/// Opens the user's browser. If there is none, the address is printed anyway.
///
/// The words of a process can be read by every user of the machine, so the browser is given a file that only its user can
/// read, and which leads to the address. It is removed with the returned value.
fn open(address: &str) -> Option<NamedTempFile> {
    let mut file = Builder::new().prefix("memreel-view-").suffix(".html").tempfile().ok()?;
    let page = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">memreel view</a>"
    );
    file.write_all(page.as_bytes()).ok()?;
    let mut command = Command::new(OPENER);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // Some openers run as long as the browser.
        thread::spawn(move || child.wait());
    }
    Some(file)
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
