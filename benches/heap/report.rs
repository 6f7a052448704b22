//! The results of child processes, one a line.

use std::process::{Command, Stdio};

/// Prints results as a table or as JSON.
pub(crate) struct Reporter {
    pub(crate) is_json: bool,
}

impl Reporter {
    /// Prints nanoseconds per pair and how many of them are not the program's own, or why there is no figure.
    pub(crate) fn report(&self, case: &str, n_threads: usize, figure: Result<f64, String>, base_ns: f64) {
        let added =
            |ns: f64| if base_ns.is_nan() { "null".to_owned() } else { format!("{:.1}", ns - base_ns) };
        match (figure, self.is_json) {
            (Ok(ns), true) => println!(
                r#"{{"case":"{case}","threads":{n_threads},"ns_pair":{ns:.1},"added_ns":{}}}"#,
                added(ns)
            ),
            (Ok(ns), false) => {
                println!("{case:<16} {n_threads} threads {ns:>10.1} ns {:>10} added", added(ns))
            }
            (Err(why), true) => {
                println!(r#"{{"case":"{case}","threads":{n_threads},"missing":{why:?}}}"#);
            }
            (Err(why), false) => println!("{case:<16} {n_threads} threads: {why}"),
        }
    }

    /// Prints the longest stop in microseconds and the number of live blocks, or why nothing was measured.
    pub(crate) fn report_stop(&self, case: &str, n_blocks: usize, figure: Result<f64, String>) {
        match (figure, self.is_json) {
            (Ok(us), true) => {
                println!(r#"{{"case":"{case}","blocks":{n_blocks},"longest_stop_us":{us:.1}}}"#);
            }
            (Ok(us), false) => println!("{case:<16} {n_blocks} blocks {us:>10.1} us"),
            (Err(why), true) => println!(r#"{{"case":"{case}","blocks":{n_blocks},"missing":{why:?}}}"#),
            (Err(why), false) => println!("{case:<16} {n_blocks} blocks: {why}"),
        }
    }
}

/// Runs a program that prints one number, and returns the number: the last line of its output that is one.
pub(crate) fn figure_of(program: &mut Command) -> Result<f64, String> {
    let name = program.get_program().to_string_lossy().into_owned();
    let output = program.stderr(Stdio::piped()).output().map_err(|error| format!("{name}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let figure = printed.lines().rev().find_map(|line| line.trim().parse().ok());
    let last_words = || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").to_owned();
    figure
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{name}: {}, {}", output.status, last_words()))
}
