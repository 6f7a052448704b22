//! The options `--folded` and `--svg`: blocks as folded stacks, and the flame graphs that inferno draws of them.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use inferno::flamegraph;
use memreel::{
    DeviceId,
    analysis::{Grouping, folded},
    snapshot::Segment,
};

use crate::{
    each::{each_device, each_file},
    exit::Exit,
    failure::Failure,
    input::Opened,
    options::Input,
};

/// Whether blocks are shown as folded stacks, as a flame graph, or neither.
#[derive(Debug, clap::Args)]
#[group(multiple = false, conflicts_with = "json")]
pub(crate) struct FoldedForm {
    /// Print folded stacks, one a line, as flame graph tools read them
    #[arg(long)]
    folded: bool,

    /// Draw a flame graph into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl FoldedForm {
    /// Prints or draws folded stacks if an option asks for them. Otherwise calls `answer` with the file's
    /// name, the device and its segments, for every device that has any.
    pub(crate) fn answer<W: Write>(
        &self,
        input: &Input,
        grouping: Grouping,
        out: &mut W,
        mut answer: impl FnMut(&str, DeviceId, &[&Segment], &mut W) -> io::Result<()>,
    ) -> Result<Exit, Failure> {
        if let Some(path) = &self.svg {
            return draw_files(path, input, grouping);
        }
        if self.folded {
            return each_file(&input.files, |opened| print(opened, input, grouping, out));
        }
        each_device(input, out, |opened, device, out| {
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

fn print(opened: &Opened, input: &Input, grouping: Grouping, out: &mut impl Write) -> Result<Exit, Failure> {
    let device = opened.one_device(input.device)?;
    folded(&opened.snapshot, device, grouping, |stack, bytes| line(out, stack, bytes))?;
    Ok(Exit::Fine)
}

fn draw_files(path: &Path, input: &Input, grouping: Grouping) -> Result<Exit, Failure> {
    let (mut lines, mut names) = (Vec::new(), Vec::new());
    let exit = each_file(&input.files, |opened| {
        names.push(opened.name.clone());
        folded(&opened.snapshot, opened.one_device(input.device)?, grouping, |stack, bytes| {
            // A block of no bytes has no width.
            if bytes > 0 {
                lines.push(format!("{} {bytes}", stack.replace('\n', " ")));
            }
            Ok::<(), Failure>(())
        })?;
        Ok(Exit::Fine)
    })?;
    match draw(path, &names.join(", "), &lines) {
        Ok(()) => Ok(exit),
        Err(failure) => Ok(exit.max(failure.report()?)),
    }
}

/// Prints a folded line: the stack and its bytes.
pub(crate) fn line(out: &mut impl Write, stack: &str, bytes: i128) -> io::Result<()> {
    // A newline in a name would begin another line.
    if stack.contains('\n') {
        return writeln!(out, "{} {bytes}", stack.replace('\n', " "));
    }
    writeln!(out, "{stack} {bytes}")
}

fn draw(path: &Path, title: &str, lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Err(Failure::Message(Exit::Broken, "nothing to draw: no block has any bytes".to_owned()));
    }
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = "bytes".to_owned();
    options.colors = flamegraph::color::Palette::Basic(flamegraph::color::BasicPalette::Mem);
    let mut write = || {
        let mut file = BufWriter::new(File::create(path)?);
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut file)
            .map_err(io::Error::other)?;
        file.flush()
    };
    write().map_err(|error| Failure::unwritable(path, error))
}
