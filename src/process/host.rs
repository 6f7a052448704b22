//! The name of the machine.
#![forbid(unsafe_code)]

/// Returns the name of the machine as a part of a file name: `localhost` if it has none.
#[must_use]
pub fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().replace('/', "-");
    if name.is_empty() { "localhost".to_owned() } else { name }
}
