//! The options `--folded` and `--svg`: blocks as folded stacks, and the flame graphs that inferno draws of them.

#![forbid(unsafe_code)]

use std::{
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
};

use inferno::flamegraph;
use memreel_snapshot::{
    DeviceId,
    analysis::{FoldedStack, Grouping, folded},
    model::Segment,
};

use super::{
    Opened, Opener,
    each::{each_device, each_file},
};
use crate::{
    exit::Exit,
    failure::Failure,
    options::{Input, output, replaces_no_snapshot},
    text::{Page, ShownPath},
};

/// Whether blocks are shown as folded stacks, as a flame graph, or neither.
#[derive(Debug, clap::Args)]
#[group(multiple = false, conflicts_with = "json")]
pub(crate) struct FoldedForm {
    /// Print folded stacks, one per line, for flame graph tools
    #[arg(long)]
    folded: bool,

    /// Draw a flame graph to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl FoldedForm {
    /// Prints or draws folded stacks if an option asks for them. Otherwise calls `answer` with the file's
    /// name, the device and its segments, for every device that has any.
    pub(crate) fn answer(
        &self,
        input: &Input,
        opener: &Opener,
        grouping: Grouping,
        out: &mut Page,
        mut answer: impl FnMut(&str, DeviceId, &[&Segment], &mut Page) -> io::Result<()>,
    ) -> Result<Exit, Failure> {
        if let Some(path) = &self.svg {
            return draw_files(path, input, opener, grouping);
        }
        if self.folded {
            return each_file(&input.files, opener, |opened| print(opened, input, grouping, out));
        }
        each_device(input, opener, out, |asked, out| {
            let (opened, device) = (asked.opened, asked.device);
            let segments: Vec<&Segment> = opened.segments(device).collect();
            if segments.is_empty() && !input.json {
                writeln!(out, "no segments: the process holds no memory of the device")?;
            } else {
                answer(&opened.name, device, &segments, out)?;
            }
            Ok(Exit::Fine)
        })
    }
}

fn print(opened: &Opened, input: &Input, grouping: Grouping, out: &mut Page) -> Result<Exit, Failure> {
    let device = opened.one_device(input.device)?;
    folded(&opened.snapshot, device, grouping, |stack, bytes| line(out, stack, bytes))?;
    Ok(Exit::Fine)
}

fn draw_files(path: &Path, input: &Input, opener: &Opener, grouping: Grouping) -> Result<Exit, Failure> {
    let (mut lines, mut names, mut n_bytes) = (Vec::new(), Vec::new(), 0);
    let exit = each_file(&input.files, opener, |opened| {
        names.push(opened.name.clone());
        folded(&opened.snapshot, opened.one_device(input.device)?, grouping, |stack, bytes| {
            // A block of no bytes has no width.
            if bytes > 0 {
                let mut text = Limited::new(MOST_DRAWN.saturating_sub(n_bytes));
                line(&mut text, stack, bytes).map_err(|_| too_much(path))?;
                n_bytes += text.text.len();
                lines.push(String::from_utf8_lossy(text.text.trim_ascii_end()).into_owned());
            }
            Ok::<(), Failure>(())
        })?;
        Ok(Exit::Fine)
    })?;
    replaces_no_snapshot(path, &input.files)?;
    match draw(path, &names.join(", "), &lines) {
        Ok(()) => Ok(exit),
        Err(failure) => Ok(exit.max(failure.report()?)),
    }
}

/// The most bytes of folded stacks that are drawn. The drawing is in memory, and no browser shows a larger one.
const MOST_DRAWN: usize = 16 << 20;

fn too_much(path: &Path) -> Failure {
    let what = format!(
        "{}: not drawn: the stacks have more than 16 MiB of text; use --folded, or first shorten the stacks \
         with `memreel slim --depth`",
        ShownPath(&path)
    );
    Failure::Message(Exit::Unreadable, what)
}

/// A text of at most some bytes; more is an error.
struct Limited {
    text: Vec<u8>,
    n_left: usize,
}

impl Limited {
    fn new(n_bytes: usize) -> Limited {
        Limited { text: Vec::new(), n_left: n_bytes }
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.n_left = self.n_left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a folded line: the stack and its bytes.
pub(crate) fn line(out: &mut impl Write, stack: &FoldedStack<'_>, bytes: i128) -> io::Result<()> {
    let mut one_line = OneLine { out, result: Ok(()) };
    let is_written = fmt::write(&mut one_line, format_args!("{stack} {bytes}"));
    one_line.result?;
    is_written.map_err(io::Error::other)?;
    writeln!(out)
}

/// Writes a text without its newlines, which would begin another line.
struct OneLine<'a, W> {
    out: &'a mut W,
    result: io::Result<()>,
}

impl<W: Write> fmt::Write for OneLine<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (nth, part) in text.split('\n').enumerate() {
            let gap = if nth > 0 { " " } else { "" };
            self.result = [gap, part].iter().try_for_each(|text| self.out.write_all(text.as_bytes()));
            self.result.as_ref().map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

/// Draws folded lines as a flame graph.
pub(crate) fn draw(path: &Path, title: &str, lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Err(Failure::Message(Exit::Broken, "nothing to draw: no blocks have any bytes".to_owned()));
    }
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = "bytes".to_owned();
    options.colors = flamegraph::color::Palette::Basic(flamegraph::color::BasicPalette::Mem);
    output::replace(path, |file| {
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), file).map_err(io::Error::other)
    })
}
