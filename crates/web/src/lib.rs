//! memreel as WebAssembly, for a worker of a page (`crates/cli/viewer/web_worker.js`).
//!
//! The module has no addresses in its interface: the worker is the system (WASI), so words are the program's arguments,
//! a request is standard input, and an answer is standard output.

#![cfg(target_family = "wasm")]

use std::{
    env,
    io::{self, Read, Write},
    path::PathBuf,
    sync::OnceLock,
};

use memreel_cli::View;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Says that more of a file was read.
    safe fn heard();
}

/// The files that the page shows.
static VIEW: OnceLock<View> = OnceLock::new();

fn view() -> &'static View {
    VIEW.get_or_init(|| memreel_cli::view(&env::args_os().skip(1).map(PathBuf::from).collect::<Vec<_>>()))
}

/// Runs a command line: the arguments are its words. Returns the exit status.
// SAFETY: no library of the module has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_run() -> u32 {
    memreel_cli::run(env::args_os().collect()).into()
}

/// Reads a file of the view, whose names are the arguments.
// SAFETY: no library of the module has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_read(file: usize) {
    view().read(file, &|| heard());
}

/// Notes that a file cannot be shown, for the reason in standard input.
// SAFETY: no library of the module has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_fail(file: usize) {
    view().fail(file, input());
}

/// Answers the request in standard input, such as `state?moment=5`. Returns its status of HTTP.
// SAFETY: no library of the module has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_answer() -> u32 {
    let (status, bytes) = view().answer(&input());
    let mut out = io::stdout();
    // The worker takes what it is given.
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
    status.into()
}

fn input() -> String {
    let mut text = String::new();
    // The worker gives text.
    let _ = io::stdin().read_to_string(&mut text);
    text
}
