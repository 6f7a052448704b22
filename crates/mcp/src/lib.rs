//! The server of `memreel mcp`: each analysis of the program `memreel` as a tool of the Model Context Protocol, on standard
//! input and output.
//!
//! The tools are generated from the program's own command line, so their options and descriptions are the program's.
//! Each question runs in a child process with limits on time and memory, which may not write files: whatever a snapshot
//! makes the reader do, the server continues.

#![forbid(unsafe_code)]

mod answer;
mod child;
mod clean;
mod files;
mod json;
mod limits;
mod output;
mod parameter;
mod server;
mod settings;
mod tool;

use std::io;

pub use limits::Limits;
pub use settings::Settings;

/// Serves one client on standard input and output until it closes standard input.
///
/// # Errors
/// A folder cannot be found, the client broke the protocol before its session started, or the system provides no
/// threads or pipes.
pub fn serve(settings: Settings) -> io::Result<()> {
    let server = server::Server::new(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(server::serve(server));
    // A question may still wait for a file system that does not answer.
    runtime.shutdown_background();
    served
}
