//! Answers for every file and every device of the command line, one after the other.

#![forbid(unsafe_code)]

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use memreel::DeviceId;

use crate::{
    colour::bold,
    exit::Exit,
    failure::Failure,
    input::{Opened, name, open},
    options::Input,
};

/// Answers for every file. The message of one that fails is printed; the highest exit status is returned.
pub(crate) fn each_file(
    files: &[PathBuf],
    mut answer: impl FnMut(&Opened) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    each_path(files, |path| open(path).and_then(|opened| answer(&opened)))
}

/// Like [`each_file`], for commands that open the file themselves.
pub(crate) fn each_path(
    files: &[PathBuf],
    mut answer: impl FnMut(&Path) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let mut worst = Exit::Fine;
    for path in files {
        let exit = match answer(path) {
            Ok(exit) => exit,
            Err(failure) => failure.of_file(&name(path)).report()?,
        };
        worst = worst.max(exit);
    }
    Ok(worst)
}

/// Answers for every device of every file, under a heading if there are several.
pub(crate) fn each_device<W: Write>(
    input: &Input,
    out: &mut W,
    mut answer: impl FnMut(&Opened, DeviceId, &mut W) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let mut n_answers = 0;
    each_file(&input.files, |opened| {
        let devices = opened.devices(input.device)?;
        let mut worst = Exit::Fine;
        for device in &devices {
            if !input.json && (devices.len() > 1 || input.files.len() > 1) {
                let gap = if n_answers > 0 { "\n" } else { "" };
                let device = if devices.len() > 1 { format!(", device {device}") } else { String::new() };
                let bold = bold();
                writeln!(out, "{gap}{bold}{}{device}{bold:#}", opened.name)?;
            }
            n_answers += 1;
            worst = worst.max(answer(opened, *device, out)?);
        }
        Ok(worst)
    })
}
