//! `memreel mcp`: a server of the Model Context Protocol.

#![forbid(unsafe_code)]

use std::{io, path::PathBuf, time::Duration};

use memreel_mcp::{Limits, Settings};

use crate::{
    exit::Exit,
    failure::Failure,
    row::Program,
    text::{Page, bytes},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel mcp` serves the Model Context Protocol on standard input and output,
until the client closes standard input. Each command that answers questions is a
tool, with its options as parameters. Files are only read. Each question runs in
its own process, which is killed if it takes too long or uses too much memory.
An answer longer than --max-answer is cut off, with a note about what is
missing.

The client starts the server. In its configuration, set the command to `memreel`
and the argument to `mcp`; docs/mcp.md has examples.

Examples:
  memreel mcp
  memreel mcp --root /data/snapshots --max-answer 20000

Exit status: 0 the client closed the session; 2 usage error; 3 the session could
not start.")]
pub(crate) struct Options {
    /// Only answer questions about files in this folder or its subfolders; may be repeated
    #[arg(long, value_name = "FOLDER")]
    root: Vec<PathBuf>,

    /// Stop a question after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    /// Limit the memory of a question: 4GiB, 512MiB or a number of bytes
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = bytes::parse)]
    max_memory: u64,

    /// Cut answers to at most this many characters
    #[arg(long, value_name = "COUNT", default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    max_answer: u32,
}

/// Answers a client by running the program's commands. The program is started again for each question.
pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    if out.is_in_memory() {
        return Err(Failure::usage(
            "the server needs standard input and output; run `memreel mcp` as a program",
        ));
    }
    let limits = Limits {
        timeout: Duration::from_secs(options.timeout),
        max_memory_bytes: options.max_memory,
        max_answer_chars: options.max_answer as usize,
    };
    let settings = Settings {
        program: program.words.clone(),
        commands: program.line.clone(),
        tools: program.rows.iter().filter(|row| row.is_tool).map(|row| row.name).collect(),
        limits,
        roots: options.root.clone(),
    };
    memreel_mcp::serve(settings).map_err(failure)?;
    Ok(Exit::Fine)
}

fn failure(error: io::Error) -> Failure {
    let is_usage = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    Failure::Message(if is_usage { Exit::Usage } else { Exit::Unreadable }, error.to_string())
}
