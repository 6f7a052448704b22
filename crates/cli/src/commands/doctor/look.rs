//! Checks whether processes can be read from outside, and pages opened in a browser.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsStr,
    fs,
    process::{Command, Stdio},
};

use super::finding::Finding;
use crate::{
    run::preloadable::in_path,
    serve::{
        browser::{OPENER, has_display, is_remote},
        view::listener,
    },
    text::ShownPath,
};

/// Checks reading the resident memory of a recorded process, which `memreel record --heap` does from a second process.
pub(super) fn processes() -> Finding {
    const PART: &str = "resident memory of processes";
    let sleep = in_path("sleep".as_ref());
    let child = sleep.and_then(|sleep| {
        Command::new(sleep).arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok()
    });
    let Some(mut child) = child else {
        return Finding::unknown(PART, "there is no program `sleep` to inspect", "");
    };
    let maps = format!("/proc/{}/smaps", child.id());
    let read = fs::read(&maps);
    let _ = child.kill();
    let _ = child.wait();
    let what_to_do = "mount /proc in the container; without it, a heap's table shows only blocks";
    match read {
        Ok(text) if !text.is_empty() => {
            Finding::works(PART, "a child process's mappings can be read from /proc")
        }
        Ok(_) => Finding::fails(PART, format!("{maps} is empty"), what_to_do),
        Err(error) => Finding::fails(PART, format!("{maps} cannot be read: {error}"), what_to_do),
    }
}

/// The server of `memreel view`.
pub(super) fn page() -> Finding {
    const PART: &str = "view";
    match listener(0) {
        Ok(_) => Finding::works(PART, "a free port for the page was found on 127.0.0.1"),
        Err(error) => Finding::fails(
            PART,
            format!("no port can be opened on 127.0.0.1: {error}"),
            "write the page to a file: memreel view --html page.html FILE",
        ),
    }
}

/// The browser that `memreel view` opens.
pub(super) fn browser() -> Finding {
    const PART: &str = "browser";
    if !has_display() {
        let why = match is_remote() {
            true => "this is an SSH session, so no browser is opened",
            false => "DISPLAY and WAYLAND_DISPLAY are not set, so no browser is opened",
        };
        let what_to_do = "from your own machine, use ssh -L to open the address that memreel view prints, or \
                          copy the file that memreel view --html writes";
        return Finding::fails(PART, why, what_to_do);
    }
    match in_path(OsStr::new(OPENER)) {
        Some(path) => Finding::works(PART, format!("{} opens the page", ShownPath(&path))),
        None => {
            let is_path = env::var_os("PATH").is_some();
            let why = if is_path { "is not in PATH" } else { "was not found, because PATH is not set" };
            let what_to_do = "open the address that memreel view prints, or install xdg-utils";
            Finding::fails(PART, format!("{OPENER} {why}"), what_to_do)
        }
    }
}
