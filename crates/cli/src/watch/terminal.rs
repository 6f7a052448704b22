//! The terminal screen: draws, reads keys, and performs their actions.

#![forbid(unsafe_code)]

use std::{
    env,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};

use super::{
    keys::{KeyRequest, press},
    screen::draw,
    view::View,
};
use crate::{
    exit::Exit,
    failure::Failure,
    run::{all::All, saved::write},
    text::ShownPath,
};

/// The minimum time between two readings.
const LOOK: Duration = Duration::from_millis(500);

/// A page that was opened; it ends with the screen.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shows the processes until the user quits.
pub(super) fn run(all: All) -> Result<Exit, Failure> {
    let mut terminal = ratatui::try_init()?;
    let result = show(all, &mut terminal);
    ratatui::restore();
    result.map(|()| Exit::Fine)
}

fn show(mut all: All, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let (mut view, mut pages) = (View::default(), Vec::new());
    all.look();
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next {
            // What is not allowed was an error before the screen began.
            let _ = all.find();
            all.look();
            if !view.is_frozen {
                view.take(&mut all);
            }
            next = Instant::now() + all.pause(LOOK);
        }
        terminal.draw(|frame| draw(&view, frame))?;
        if !event::poll(next.saturating_duration_since(Instant::now()))? {
            continue;
        }
        // A resized terminal is drawn again.
        let Event::Key(key) = event::read()? else { continue };
        view.message.clear();
        match press(&mut view, key) {
            KeyRequest::Nothing => {}
            KeyRequest::Figures => {
                view.figures = view.selected.as_ref().map(|tape| all.figures_of(tape)).unwrap_or_default();
            }
            KeyRequest::Snapshot => view.message = written(&view).map_or_else(|why| why, said),
            KeyRequest::Page => {
                let opened = written(&view).and_then(|path| open(&path));
                view.message = opened.map_or_else(
                    |why| why,
                    |(page, address)| {
                        pages.push(page);
                        address
                    },
                );
            }
            KeyRequest::Quit => return Ok(()),
        }
    }
}

fn said(path: PathBuf) -> String {
    format!("written to {}", ShownPath(&path))
}

/// Writes a snapshot of the selected process into the current folder.
fn written(view: &View) -> Result<PathBuf, String> {
    let tape = view.selected.as_ref().ok_or("no process is selected")?;
    write(tape)
}

/// Shows a snapshot in a browser; returns the address, which `memreel view` prints first.
fn open(path: &Path) -> Result<(Page, String), String> {
    let start = || -> io::Result<(Page, String)> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("view").arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let out = child.stdout.take();
        let page = Page(child);
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        Ok((page, line.trim().to_owned()))
    };
    start().map_err(|error| format!("the page cannot be opened: {error}"))
}
