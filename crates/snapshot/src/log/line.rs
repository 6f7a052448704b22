//! Reads a line of a log without colours and without the prefix of a launcher or a logger.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// Escape sequences of terminals; also those that lost their first byte on the way.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|\[(?:[0-9]{1,3};)*[0-9]{1,3}m",
    )
    .expect("a constant")
});

/// A prefix of a line: the rank, a time, or a level.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^[ \t]*(?:",
        // torchrun, DeepSpeed; mpirun --tag-output; srun --label.
        r"\[(?:rank|default|Rank |RANK )(?P<rank>[0-9]+)\]:?",
        r"|\[[0-9]+,(?P<mpi>[0-9]+)\]<std(?:err|out)>:",
        r"|(?P<srun>[0-9]{1,5}): ",
        // Ray and vLLM; docker compose.
        r"|\((?P<worker>[^()]*\b(?:pid|Worker|rank|Rank)\b[^()]*)\)",
        r"|(?P<service>[A-Za-z][\w.-]*-[0-9]+)[ ]+\| ",
        // Times and levels.
        r"|\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}(?:[T ]?[0-9:.,]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?",
        r"|\[?[0-9]{1,2}:[0-9]{2}:[0-9]{2}[0-9.,]*\]?",
        r"|[IWEF][0-9]{4} [0-9:.]+ +[0-9]+ [^ ]+\]",
        r"|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b\]?:?",
        r")[ \t]*",
    ))
    .expect("a constant")
});

/// The most characters of a rank's name that are kept.
const MAX_RANK: usize = 64;

/// A line as printed by its program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    /// The process that printed it, according to the prefix: `rank 3`, `pid=123`.
    pub(super) rank: Option<String>,
    /// The rest.
    pub(super) text: String,
}

impl Line {
    pub(super) fn of(bytes: &[u8]) -> Line {
        let whole = String::from_utf8_lossy(bytes);
        let plain: Cow<'_, str> = ESCAPES.replace_all(&whole, "");
        let (mut rest, mut rank) = (&*plain, None);
        while let Some(found) = PREFIX.captures(rest) {
            let numbered = ["rank", "mpi", "srun"].iter().find_map(|group| found.name(group));
            let named = ["worker", "service"].iter().find_map(|group| found.name(group));
            let this = numbered.map(|number| format!("rank {}", number.as_str()));
            let this = this.or_else(|| named.map(|name| name.as_str().chars().take(MAX_RANK).collect()));
            rank = rank.or(this);
            rest = &rest[found[0].len()..];
        }
        let text = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        Line { rank, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_colours_are_no_part_of_a_line() {
        for (line, rank, text) in [
            ("[rank3]: torch.OutOfMemoryError: x", Some("rank 3"), "torch.OutOfMemoryError: x"),
            ("\x1b[31m[default1]:\x1b[0m E  1.00 GiB", Some("rank 1"), "E 1.00 GiB"),
            ("[1,7]<stderr>:Tried", Some("rank 7"), "Tried"),
            ("12: RuntimeError: x", Some("rank 12"), "RuntimeError: x"),
            ("(WorkerDict pid=123, ip=10.0.0.2) x", Some("WorkerDict pid=123, ip=10.0.0.2"), "x"),
            ("[36m(Worker pid=9)[0m x", Some("Worker pid=9"), "x"),
            ("llama-1  | ggml: x", Some("llama-1"), "ggml: x"),
            ("2021-12-08T01:25:15.387525661Z     return F", None, "return F"),
            ("2026-11-30 10:00:00,123 [rank0]: ERROR x", Some("rank 0"), "x"),
            ("[2023-05-01 10:00:00] [ERROR] [rank2]: x", Some("rank 2"), "x"),
            ("W1103 18:23:55.102059 3413776 bfc_allocator.cc:501] x", None, "x"),
            ("GPU 0 has a total capacity of", None, "GPU 0 has a total capacity of"),
            ("\x1b]0;title\x07x \u{fffd}", None, "x \u{fffd}"),
        ] {
            let expected = Line { rank: rank.map(str::to_owned), text: text.to_owned() };
            assert_eq!(Line::of(line.as_bytes()), expected, "{line:?}");
        }
    }
}
