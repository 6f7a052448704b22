//! The options `--folded` and `--svg`: blocks as folded stacks, and the flame graphs that inferno draws of them.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use inferno::flamegraph;
use memreel::analysis::{Grouping, folded};

use crate::{each::each_file, exit::Exit, failure::Failure, input::Opened, options::Input};

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
    /// Prints or draws folded stacks; returns `None` if neither option is given.
    pub(crate) fn show(
        &self,
        input: &Input,
        grouping: Grouping,
        out: &mut impl Write,
    ) -> Option<Result<Exit, Failure>> {
        if let Some(path) = &self.svg {
            return Some(draw_files(path, input, grouping));
        }
        let one_file = |opened: &Opened| {
            folded(&opened.snapshot, opened.one_device(input.device)?, grouping, |stack, bytes| {
                line(out, stack, bytes)
            })?;
            Ok(Exit::Fine)
        };
        self.folded.then(|| each_file(&input.files, one_file))
    }
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
