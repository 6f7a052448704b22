//! Rejects dictionaries and lists that are not snapshots: with them, every gate would pass and every answer would be
//! empty.

use super::{Field, Slot, Snapshot, TopLevel};

/// How many keys of another kind of file are named.
const N_KEYS: usize = 4;

/// Longer keys are cut.
const KEY_WIDTH: usize = 30;

impl Snapshot {
    /// Returns the snapshot, or a text that names what was read instead.
    ///
    /// One of the two lists is enough, so that a file without the other can be validated and fixed.
    pub(crate) fn unless_foreign(self) -> Result<Snapshot, String> {
        let is_one = match self.top_level {
            TopLevel::SegmentList => self.segments.is_empty() || self.has_a_segment(),
            TopLevel::Dictionary => self.shape.has(Field::Segments) || self.shape.has(Field::DeviceTraces),
        };
        let is_one = is_one && !self.is_scenario();
        if is_one { Ok(self) } else { Err(format!("not a memory snapshot: {}", self.described())) }
    }

    fn has_a_segment(&self) -> bool {
        let fields = [Field::Address, Field::TotalSize, Field::Blocks];
        let is_one = |shape| fields.into_iter().any(|field| self.shapes.get(shape).has(field));
        self.segments.iter().any(|segment| is_one(segment.shape))
    }

    /// Returns whether it is a list of actions for an allocator, with the resulting segments.
    fn is_scenario(&self) -> bool {
        ["events", "total_memory"].iter().all(|key| self.shape.slot(key).is_some())
    }

    fn described(&self) -> String {
        if self.is_scenario() {
            return "a scenario: the requests and frees of a test of an allocator, with the segments that it left; give a \
                    file written by _dump_snapshot"
                .to_owned();
        }
        if self.top_level == TopLevel::SegmentList {
            return "a list of dictionaries, none of which is a segment".to_owned();
        }
        let odd = ["segments", "device_traces"].into_iter().find_map(|key| match self.shape.slot(key)? {
            Slot::Value(value) => Some(format!("{key:?} is {}, not a list of records", value.kind())),
            Slot::Field(_) => None,
        });
        odd.unwrap_or_else(|| format!("neither segments nor device_traces; {}", self.guessed()))
    }

    /// What the keys show.
    fn guessed(&self) -> String {
        let keys = || self.shape.slots.iter().map(|(key, _)| &**key);
        let has = |names: &[&str]| keys().any(|key| names.contains(&key));
        let named: Vec<String> = keys().take(N_KEYS).map(quoted).collect();
        let more = match self.shape.slots.len().saturating_sub(N_KEYS) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let names = ["model", "state_dict", "model_state_dict", "optimizer", "optimizer_state_dict", "epoch"];
        let kind = if self.shape.slots.is_empty() {
            return "it is an empty dictionary, as PyTorch writes it for a backend that records no memory (MPS, MTIA)"
                .to_owned();
        } else if has(&["traceEvents"]) {
            ", as traces of torch.profiler do"
        } else if has(&names) {
            ", as checkpoints do"
        } else if has(&["allocated_bytes.all.current"]) {
            ", as memory_stats() does"
        } else {
            ""
        };
        format!("it holds {}{more}{kind}", named.join(", "))
    }
}

fn quoted(key: &str) -> String {
    let short: String = key.chars().take(KEY_WIDTH).collect();
    let cut = if short.len() < key.len() { "…" } else { "" };
    format!("{:?}", short + cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(json: &str) -> String {
        serde_json::from_str::<Snapshot>(json).unwrap_err().to_string()
    }

    #[test]
    fn something_else_is_named_by_its_keys() {
        let cases = [
            ("{}", "neither segments nor device_traces; it is an empty dictionary"),
            (
                r#"{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}"#,
                "neither segments nor device_traces; it holds \"a\", \"b\", \"c\", \"d\" and 1 more",
            ),
            (r#"{"epoch": 1}"#, "neither segments nor device_traces; it holds \"epoch\", as checkpoints do"),
            (
                r#"{"traceEvents": []}"#,
                "neither segments nor device_traces; it holds \"traceEvents\", as traces of torch.profiler do",
            ),
            (r#"{"total_memory": 9, "ops": [], "events": [], "segments": []}"#, "a scenario: the requests"),
            (r#"{"segments": 5}"#, "\"segments\" is an int, not a list"),
            (r#"[{"a": 1}]"#, "a list of dictionaries, none of which is a segment"),
        ];
        for (json, expected) in cases {
            let text = why(json);
            assert!(text.starts_with(&format!("not a memory snapshot: {expected}")), "{json}: {text}");
        }
        let text = why(&format!("{{\"\\u001b[2J{}\": 1}}", "x".repeat(99)));
        assert!(!text.contains('\u{1b}') && text.contains("xxx…") && text.len() < 200, "{text}");
    }

    #[test]
    fn half_a_snapshot_and_none_at_all_are_snapshots() {
        for json in ["[]", r#"{"segments": []}"#, r#"{"device_traces": [], "x": 1}"#, r#"[{"address": 1}]"#] {
            assert!(serde_json::from_str::<Snapshot>(json).is_ok(), "{json}");
        }
        let json = serde_json::to_string(&Snapshot::default()).unwrap();
        assert_eq!(json, r#"{"segments":[],"device_traces":[]}"#);
    }
}
