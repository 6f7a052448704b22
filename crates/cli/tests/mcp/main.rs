//! Sessions with `memreel mcp`, whose messages are written here by hand. What belongs where:
//!
//! - `session`: a client of these tests.
//! - `tools`: which tools there are, and that their answers are the program's.
//! - `bounded`: answers that are too long, and questions that take too much.
//! - `hostile`: files that the server must refuse, and names that it must not print as they are.
//! - `protocol`: wrong messages, several calls at once, and the end of a session.

mod bounded;
mod hostile;
mod protocol;
mod session;
mod tools;

/// Returns a file or folder below the repository's root.
fn repository(path: &str) -> std::path::PathBuf {
    std::fs::canonicalize(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns the path of a snapshot of PyTorch.
fn snapshot(name: &str) -> String {
    let path = repository("fixtures/torch-2.11/snapshots").join(name);
    path.into_os_string().into_string().unwrap()
}
