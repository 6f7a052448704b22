//! The reason why a snapshot is written.
#![forbid(unsafe_code)]

/// What made a trigger write a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Oom,
    Signal,
    Exit,
    Panic,
    Interval,
    Bytes,
    Peak,
}

impl Cause {
    pub(crate) const ALL: [Cause; 7] =
        [Cause::Oom, Cause::Signal, Cause::Exit, Cause::Panic, Cause::Interval, Cause::Bytes, Cause::Peak];

    /// Returns the word that replaces `{cause}` in a file name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::Oom => "oom",
            Cause::Signal => "signal",
            Cause::Exit => "exit",
            Cause::Panic => "panic",
            Cause::Interval => "interval",
            Cause::Bytes => "bytes",
            Cause::Peak => "peak",
        }
    }
}
