//! Folded lines, and the flame graphs that inferno draws of them.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use inferno::flamegraph;

use crate::{exit::Exit, input::Failure};

/// Prints a folded line.
pub(crate) fn line(out: &mut impl Write, stack: &str, bytes: i128) -> io::Result<()> {
    // Names with newlines would become lines of their own.
    if stack.contains('\n') {
        return writeln!(out, "{} {bytes}", stack.replace('\n', " "));
    }
    writeln!(out, "{stack} {bytes}")
}

/// Draws folded lines; what is not above zero has no width and is left out.
pub(crate) fn draw(path: &Path, title: &str, lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Err(Failure::Told(Exit::Broken, "there is nothing to draw: no block has a byte".to_owned()));
    }
    let told = |what: &dyn std::fmt::Display| {
        Failure::Told(Exit::Unreadable, format!("cannot write {}: {what}", path.display()))
    };
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = "bytes".to_owned();
    options.colors = flamegraph::color::Palette::Basic(flamegraph::color::BasicPalette::Mem);
    let mut file = BufWriter::new(File::create(path).map_err(|error| told(&error))?);
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut file)
        .map_err(|error| told(&error))?;
    file.flush().map_err(|error| told(&error))
}
