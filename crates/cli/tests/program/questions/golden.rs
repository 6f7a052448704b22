//! Answers as golden texts. `MEMREEL_BLESS=1 cargo test golden` writes them again.

#![forbid(unsafe_code)]

use std::fs;

use crate::support::{answer, fixture};

const GOLDEN: &[(&str, &[&str])] = &[
    ("top", &["top", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-function", &["top", "--by", "function", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-file", &["top", "--by", "file", "-n", "4", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-scope", &["top", "--by", "scope", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-tree", &["top", "--tree", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-native", &["top", "-n", "4", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    (
        "top-native-function",
        &["top", "--by", "function", "-n", "6", "torch-2.11/snapshots/transformer_all_stacks.pickle"],
    ),
    ("top-native-tree", &["top", "--tree", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    ("top-wrapped", &["top", "torch-2.11/snapshots/expandable_wrapped_ring.pickle"]),
    ("top-no-history", &["top", "torch-2.11/snapshots/no_history.pickle"]),
    ("top-segment-list", &["top", "synthetic/torch-2.11-segment-list.pickle"]),
    ("top-torch-2.0", &["top", "synthetic/torch-2.0.pickle"]),
    ("at", &["at", "500", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("at-pending", &["at", "end", "torch-2.11/snapshots/pending_free.pickle"]),
    ("at-address", &["at", "--address", "0x7f5306000000", "torch-2.11/snapshots/graph_private_pools.pickle"]),
    ("oom-fragmented", &["oom", "torch-2.11/snapshots/oom_fragment.pickle"]),
    ("oom-limited", &["oom", "torch-2.11/snapshots/oom.pickle"]),
    ("oom-log", &["oom", "logs/train.log"]),
    ("oom-none", &["oom", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("leaks", &["leaks", "-n", "5", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    (
        "leaks-older",
        &["leaks", "--older-than", "1000", "-n", "3", "torch-2.11/snapshots/resnet18_python_stacks.pickle"],
    ),
    ("churn", &["churn", "-n", "5", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    ("fragmentation", &["fragmentation", "torch-2.11/snapshots/oom_fragment.pickle"]),
    ("timeline", &["timeline", "--width", "60", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("timeline-csv", &["timeline", "--csv", "torch-2.11/snapshots/pending_free.pickle"]),
    ("trace", &["trace", "synthetic/tool.pickle"]),
    ("trace-expandable", &["trace", "torch-2.11/snapshots/expandable_wrapped_ring.pickle"]),
    ("compare", &["compare", "synthetic/before_segments.pickle", "synthetic/after_segments.pickle"]),
    ("segments", &["segments", "torch-2.11/snapshots/graph_private_pools.pickle"]),
    ("memory", &["memory", "torch-2.11/snapshots/pending_free.pickle"]),
    ("diff", &["diff", "torch-2.11/snapshots/no_history.pickle", "torch-2.11/snapshots/pending_free.pickle"]),
    (
        "two-files",
        &["churn", "-n", "1", "torch-2.11/snapshots/oom.pickle", "torch-2.11/snapshots/cpp_path.pickle"],
    ),
    ("summary", &["torch-2.11/snapshots/oom_fragment.pickle"]),
    ("gate", &["gate", "--max-peak", "100MiB", "--max-live", "1GiB", "torch-2.11/snapshots/cpp_path.pickle"]),
];

#[test]
fn golden_texts() {
    let is_blessed = std::env::var_os("MEMREEL_BLESS").is_some();
    for (name, arguments) in GOLDEN {
        let text = answer(arguments);
        let path = fixture("expected").join(format!("{name}.txt"));
        if is_blessed {
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, golden, "{name}: MEMREEL_BLESS=1 takes the new text");
    }
}
