//! The commands, one per file, and the table of them.
//!
//! A new command is a file with its `Options` and `run`, its `mod` line and its row in [`groups`]; CONTRIBUTING.md has
//! the other places, "A command". Tests require of it what they require of every command, and report where an exception
//! goes.

#![forbid(unsafe_code)]

mod at;
mod churn;
#[cfg(not(target_family = "wasm"))]
mod completions;
mod convert;
mod diff;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod fit;
mod fix;
mod flamegraph;
mod fragmentation;
mod gate;
mod leaks;
#[cfg(not(target_family = "wasm"))]
mod man;
#[cfg(all(target_os = "linux", feature = "mcp"))]
mod mcp;
mod merge;
mod oom;
mod owners;
mod ranks;
mod recover;
mod replay;
mod report;
mod slim;
mod split;
mod summary;
mod timeline;
mod top;
pub(crate) mod torch;
mod validate;
#[cfg(not(target_family = "wasm"))]
mod view;

use crate::row::{Row, command, of_program, question};
#[cfg(target_os = "linux")]
use crate::{attach, record, watch};

#[cfg(not(target_os = "linux"))]
use elsewhere::{attach, doctor, mcp, record, watch};
#[cfg(target_family = "wasm")]
use elsewhere::{completions, man, view};

/// Returns the headings of `memreel --help`, each with its commands.
pub(crate) fn groups() -> [(&'static str, Vec<Row>); 7] {
    [
        (
            "Getting started:",
            vec![
                question("summary", "Describe a snapshot (short form: `memreel FILE`)", summary::run),
                of_program("view", "Explore snapshots in a browser, offline", view::run),
                command(
                    "report",
                    "Write a report on a snapshot, for a bug report or a job summary",
                    report::run,
                ),
                of_program("record", "Run a program and record the memory that it allocates", record::run),
                of_program("attach", "Record PyTorch's memory in a running process", attach::run),
                command("watch", "Watch the memory of recorded programs while they run", watch::run),
            ],
        ),
        (
            "Why did a request fail?",
            vec![
                question("oom", "Explain why a request ran out of memory", oom::run),
                question(
                    "fragmentation",
                    "Show unused reserved memory, and what prevents its release",
                    fragmentation::run,
                ),
                question("replay", "Estimate memory use under other allocator settings", replay::run),
                question("fit", "Predict the largest batch size that fits, from other runs", fit::run),
            ],
        ),
        (
            "What holds the memory?",
            vec![
                question(
                    "owners",
                    "Show what holds a device's memory, and how much is unexplained",
                    owners::run,
                ),
                question("top", "Show what holds the memory, at the peak or any other moment", top::run),
                question("leaks", "Find call sites that grow, and list what is held at the end", leaks::run),
                command("flamegraph", "Draw a flame graph of what holds the memory", flamegraph::run),
                question(
                    "churn",
                    "List sites that repeatedly allocate and free same-size blocks",
                    churn::run,
                ),
                question("diff", "Compare two snapshots and list the sites that grew or shrank", diff::run),
                of_program("ranks", "Compare the ranks of a run and find the outliers", ranks::run),
            ],
        ),
        (
            "Over time and by address:",
            vec![
                question("timeline", "Plot memory in use and reserved memory over time", timeline::run),
                question("at", "Show the allocator's state after an event", at::run),
                torch::row(),
            ],
        ),
        (
            "Make or change a file:",
            vec![
                command("recover", "Make a snapshot from a raw recording, even after a crash", recover::run),
                command("fix", "Repair snapshots that PyTorch's web viewer cannot open", fix::run),
                command("slim", "Make a snapshot smaller: keep fewer events, frames or names", slim::run),
                command("merge", "Merge several snapshots into one; ranks become devices", merge::run),
                command("split", "Write one snapshot for each device", split::run),
                command("convert", "Write a snapshot in another tool's format", convert::run),
            ],
        ),
        (
            "Check a file:",
            vec![
                question("gate", "Check snapshots against limits, for continuous integration", gate::run),
                question("validate", "Report every rule that a snapshot file breaks", validate::run),
            ],
        ),
        (
            "Other commands:",
            vec![
                #[cfg(feature = "mcp")]
                of_program("mcp", "Serve assistants and editors over MCP (Model Context Protocol)", mcp::run),
                of_program(
                    "doctor",
                    "Show what works on this machine, and how to fix what does not",
                    doctor::run,
                ),
                of_program("completions", "Print a shell's completion script", completions::run),
                of_program("man", "Print manual pages", man::run),
            ],
        ),
    ]
}
