//! Answers for every file and every device on the command line, one by one.

#![forbid(unsafe_code)]

use std::{
    cell::OnceCell,
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel_answers::Subject;
use memreel_snapshot::{
    DeviceId,
    analysis::{DeviceHistory, Histories},
};
use serde::Serialize;

use super::{
    Opened, Opener,
    files::{NamedFiles, named},
    log_file, name,
};
use crate::{
    exit::Exit,
    failure::Failure,
    options::Input,
    text::{Page, clean, labels, print_line},
};

/// Answers for every file, those of folders and patterns among them. The message of one that fails is printed; the highest
/// exit status is returned.
pub(crate) fn each_file(
    files: &[PathBuf],
    opener: &Opener,
    answer: impl FnMut(&Opened) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    each_named(named(files, opener)?, opener, answer)
}

fn each_named(
    named: NamedFiles,
    opener: &Opener,
    mut answer: impl FnMut(&Opened) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let NamedFiles { files: found, broken } = named;
    let mut worst = Exit::Fine;
    for (path, why) in broken {
        let failure = Failure::Message(Exit::Unreadable, why).of_file(&name(&path));
        worst = worst.max(failure.report()?);
    }
    Ok(worst.max(each_path(&found, |path| match log_file::named(path, opener) {
        Some(failure) => Err(failure),
        None => opener.open(path).and_then(|opened| answer(&opened)),
    })?))
}

/// Like [`each_file`], for commands that open the file themselves. The failure of the only file is returned.
pub(crate) fn each_path(
    files: &[PathBuf],
    mut answer: impl FnMut(&Path) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let mut worst = Exit::Fine;
    for path in files {
        let exit = match answer(path) {
            Ok(exit) => exit,
            Err(failure) if files.len() == 1 => return Err(failure.of_file(&name(path))),
            Err(failure) => failure.of_file(&name(path)).report()?,
        };
        worst = worst.max(exit);
    }
    Ok(worst)
}

/// One device of one file.
pub(crate) struct DeviceOfFile<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) device: DeviceId,
    /// Whether there are other answers: of other files, or of other devices of the file.
    pub(crate) is_one_of_several: bool,
    histories: &'a Histories<'a>,
    subject: OnceCell<Subject<'a>>,
}

/// The pairs of an answer about a history, followed by the limitations of its figures.
#[derive(Serialize)]
struct Answer<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    warnings: Vec<String>,
}

impl<'a> DeviceOfFile<'a> {
    pub(crate) fn new(
        opened: &'a Opened,
        histories: &'a Histories<'a>,
        device: DeviceId,
        is_one_of_several: bool,
    ) -> DeviceOfFile<'a> {
        DeviceOfFile { opened, device, is_one_of_several, histories, subject: OnceCell::new() }
    }

    /// Returns what questions are asked about. Its history is read when it is first needed.
    pub(crate) fn subject(&self) -> &Subject<'a> {
        self.subject.get_or_init(|| Subject::of(self.histories, self.device))
    }

    /// Returns the history of the device.
    pub(crate) fn history(&self) -> &DeviceHistory<'a> {
        self.subject().history()
    }

    /// Prints an answer as a line of `--json`.
    pub(crate) fn print_answer(&self, answer: &impl Serialize, out: &mut Page) -> io::Result<()> {
        print_line(&self.opened.name, self.device, answer, out)
    }

    /// Prints an answer as a line of `--json`, followed by what limits its figures.
    pub(crate) fn print_json(&self, answer: &impl Serialize, out: &mut Page) -> io::Result<()> {
        self.print_answer(&Answer { answer, warnings: self.subject().warnings() }, out)
    }
}

/// Answers for every device of every file, first those on which a request failed, under a heading if there are several.
pub(crate) fn each_device(
    input: &Input,
    opener: &Opener,
    out: &mut Page,
    answer: impl FnMut(&DeviceOfFile<'_>, &mut Page) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    each_device_of(named(&input.files, opener)?, input, opener, out, answer)
}

/// Like [`each_device`], for files that were already found: their names are no longer patterns or folders.
pub(crate) fn each_device_of(
    named: NamedFiles,
    input: &Input,
    opener: &Opener,
    out: &mut Page,
    mut answer: impl FnMut(&DeviceOfFile<'_>, &mut Page) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let has_several = named.files.len() + named.broken.len() > 1;
    let mut n_answers = 0;
    each_named(named, opener, |opened| {
        let histories = Histories::new(&opened.snapshot);
        let devices = opened.failed_first(input.device)?;
        let is_one_of_several = has_several || devices.len() > 1;
        let mut worst = Exit::Fine;
        for device in &devices {
            if !input.json && is_one_of_several {
                let gap = if n_answers > 0 { "\n" } else { "" };
                let device =
                    if devices.len() > 1 { format!(", {}", labels::device(*device)) } else { String::new() };
                let bold = out.bold();
                writeln!(out, "{gap}{bold}{}{device}{bold:#}", clean(&opened.name))?;
            }
            n_answers += 1;
            worst =
                worst.max(answer(&DeviceOfFile::new(opened, &histories, *device, is_one_of_several), out)?);
        }
        Ok(worst)
    })
}
