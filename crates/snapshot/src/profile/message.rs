//! The messages of pprof's `profile.proto` that a heap profile needs. Texts are numbers in the table of texts.

use prost::Message;

/// A profile.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub(super) mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) texts: Vec<String>,
}

/// The meaning of a sample's value, and its unit.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// The values of a stack.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    /// Its locations, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub(super) locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) labels: Vec<Label>,
}

/// A name and a text of a sample.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

/// A library of the process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "5")]
    pub(super) file: i64,
}

/// A place in the code, with the functions that are inlined there.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) mapping: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) lines: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "4")]
    pub(super) file: i64,
}

impl Profile {
    /// Returns the text of a number; empty for a number without one.
    pub(super) fn text(&self, number: i64) -> &str {
        usize::try_from(number).ok().and_then(|number| self.texts.get(number)).map_or("", String::as_str)
    }
}

/// Returns whether bytes start like a profile: with the type of a value, a message of two small numbers.
pub(super) fn is_beginning(head: &[u8]) -> bool {
    let [0x0a, length @ 2..=12, field @ (0x08 | 0x10), ..] = head else { return false };
    let message = head.get(2..2 + usize::from(*length));
    *field != 0 && message.is_some_and(|message| ValueType::decode(message).is_ok_and(|of| of.kind > 0))
}
