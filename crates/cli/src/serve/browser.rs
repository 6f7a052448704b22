//! Opens the user's browser, if it would be visible.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    io::Write,
    process::{Command, Stdio},
    thread,
};

use tempfile::{Builder, NamedTempFile};

/// Returns whether a browser that is started here is visible.
pub(crate) fn has_display() -> bool {
    !is_remote() && (cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
}

/// Returns whether the terminal is an SSH session.
pub(crate) fn is_remote() -> bool {
    is_set("SSH_CONNECTION") || is_set("SSH_TTY")
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| value != OsString::new())
}

/// The program that opens the user's browser.
pub(crate) const OPENER: &str = if cfg!(windows) {
    "explorer"
} else if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens the user's browser where it is seen.
pub(crate) fn opened(url: &str) -> Option<NamedTempFile> {
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
