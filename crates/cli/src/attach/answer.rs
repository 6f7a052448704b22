//! The outcome of an attachment, and what it cannot show.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use super::{
    interpreter::Interpreter,
    talk::{Begun, Device, Ended},
    target::Target,
};
use crate::text::{Bytes, Page, clean, count, shell_word};

/// Prints that it records, and how it ends.
pub(super) fn say_begun(target: &Target, interpreter: &Interpreter, begun: &Begun, time: Option<Duration>) {
    let records = match &*begun.history {
        "theirs" => "already records, as the program requested",
        "waits" => "records from its first use of CUDA",
        _ => "records",
    };
    let until = time.map_or_else(String::new, |time| format!("in {} s, ", time.as_secs_f64()));
    eprintln!(
        "memreel: {} {records} (CPython 3.{}, PyTorch {}); the snapshot is written {until}on Ctrl-C or when it ends",
        target.name(),
        interpreter.minor,
        clean(&begun.torch),
    );
}

/// An attachment that has ended.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) target: &'a Target,
    pub(super) interpreter: &'a Interpreter,
    pub(super) begun: Begun,
    pub(super) ended: Ended,
    pub(super) time: Duration,
    pub(super) path: &'a Path,
}

impl Answer<'_> {
    pub(super) fn print(&self, out: &mut Page) -> io::Result<()> {
        let (name, history) = (self.target.name(), self.history());
        let Some(n_events) = self.ended.n_events else {
            let why = self.ended.failed.as_deref().unwrap_or("the process gave no reason");
            eprintln!("memreel: {name}: no snapshot: {}; {history}", clean(why));
            return Ok(());
        };
        let path = shell_word(&self.path.display().to_string());
        let by_exit = if self.ended.reason.as_deref() == Some("exit") { ", up to its end" } else { "" };
        writeln!(
            out,
            "{path}: {} in {:.1} s of {name}, CPython 3.{}, PyTorch {}{by_exit}",
            count(n_events, "event"),
            self.time.as_secs_f64(),
            self.interpreter.minor,
            clean(&self.begun.torch),
        )?;
        for Device { device, allocated_bytes, reserved_bytes, .. } in &self.begun.devices {
            let (allocated, reserved) = (Bytes(*allocated_bytes), Bytes(*reserved_bytes));
            writeln!(out, "device {device}, older blocks: {allocated} in use, {reserved} reserved")?;
        }
        for Device { device, reserved_bytes, used_bytes, .. } in &self.ended.devices {
            let (others, used) = (Bytes(used_bytes.saturating_sub(*reserved_bytes)), Bytes(*used_bytes));
            writeln!(
                out,
                "device {device} at the end: {others} of the {used} that the device reports as used does \
                 not belong to PyTorch"
            )?;
        }
        writeln!(
            out,
            "Older blocks have no stack; what does not belong to PyTorch belongs to other libraries and processes."
        )?;
        writeln!(out, "{history}\nnext: memreel {path}")
    }

    /// Returns what the history is now.
    fn history(&self) -> String {
        match &*self.ended.history {
            "off" => "PyTorch's history is off, as before".to_owned(),
            "theirs" => "PyTorch's history is left as the program set it".to_owned(),
            other => format!("PyTorch's history is {}", clean(other)),
        }
    }
}
