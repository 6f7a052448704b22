//! Tests of the program `memreel`, which they start as its users do. What belongs where:
//!
//! - `every_command`: every command takes several files, `-`, `--device` and `--json`, or its help explains why not.
//! - `layouts`: every command reads every layout of PyTorch 2.0 to 2.15, and the answers agree.
//! - `questions`: what the questions answer, some of it as golden texts.
//! - `pytorch`: the texts that copy PyTorch's tool.
//! - `attach`: programs that run already, whose PyTorch is recorded from then on.
//! - `fit`, `gate`, `replay`, `validate`: these commands, and their exit statuses.
//! - `owners`: who has a device's memory, as a table and as limits.
//! - `planted`: folders in which other users have put links.
//! - `ranks`: the ranks of a run, compared.
//! - `record`: programs that `memreel record` starts, and what they leave.
//! - `recover`: tapes, which this command and every other one reads.
//! - `doctor`: what it finds out about machines that lack something.
//! - `report`: its page, the flame graph of a moment, and the leaks of several files.
//! - `rewrite`: `fix`, `slim`, `merge`, `split` and `convert`.
//! - `files`: files as people have them: of Windows, without a history, in a page, of other devices.
//! - `bad_input`: files that no recorder wrote.
//! - `hostile`: every command on files that are made to cost much, with limits of memory and time.
//! - `ci`: the page `docs/guides/ci.md`.
//! - `json_lines`: the lines of `--json`, by their schema.
//! - `summary`: `memreel FILE`, and the help that lists the commands.
//! - `live`: the page that follows a program that runs.
//! - `view`: the server of the page, and who gets its answers.
//! - `watch`: processes that are watched while they run, and end.
//! - `width`: every line of our own fits the terminal, and nothing is cut in a pipe.
//! - `usage`: wrong usage, closed pipes, full disks, help, completions and manual pages.

mod attach;
mod bad_input;
mod ci;
mod doctor;
mod every_command;
mod files;
mod fit;
mod gate;
mod gate_baseline;
mod host;
mod hostile;
mod json_lines;
mod logs;
mod layouts;
mod live;
mod owners;
#[cfg(target_os = "linux")]
mod planted;
mod pytorch;
mod questions;
mod ranks;
mod record;
mod recover;
mod replay;
mod report;
mod rewrite;
mod streams;
mod summary;
mod support;
mod terminal;
mod usage;
mod validate;
mod view;
mod watch;
mod width;

#[path = "../../../../tests/it/whatif/model_recording.rs"]
mod model_recording;
#[path = "../../../../tests/it/fit/sized_recording.rs"]
mod sized_recording;

#[cfg(target_os = "linux")]
use memreel_testing::own_process;
use memreel_testing::{random, recorded, repository};

/// Returns where tests write snapshots that the viewer should open; the gate opens them there.
fn written(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
