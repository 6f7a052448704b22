//! The program `memreel`, started as its users start it, in one test binary. What belongs where:
//!
//! - `answers`: what the program answers, PyTorch's texts and golden ones.
//! - `bad_input`: files that no honest recorder wrote, at the command line.
//! - `cli`: the program, its output and its exit status.
//! - `commands`: every command takes several files, `-`, `--device` and `--json`, or says why not.
//! - `fix_files`: `memreel fix` on what PyTorch's viewer refuses.
//! - `replay_command`: `memreel replay`, its output and its exit status.
//! - `rewrite_commands`: `memreel slim`, `merge`, `split` and `convert`.
//! - `windows`: what `memreel slim` cuts against `memreel at` of the whole.

mod answers;
mod bad_input;
mod cli;
mod commands;
mod fix_files;
mod replay_command;
mod rewrite_commands;
mod windows;

#[path = "../../../tests/it/model_recording.rs"]
mod model_recording;
#[path = "../../../tests/it/recorded.rs"]
mod recorded;

/// A file or folder below the repository's root.
fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Where tests write snapshots that should open in the viewer; the gate opens them there.
fn written(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
