//! Unwind rules: 29 bits that locate the caller's frame. `processor/` defines how.
#![forbid(unsafe_code)]

/// The unwind rule of one address.
///
/// The CFA, DWARF's canonical frame address, is the value of the stack pointer once the function has returned. It is
/// counted from the stack pointer or the frame pointer; the locations of saved registers are counted from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Rule(pub(super) u32);

/// Why no frame follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The unwind tables mark the outermost function: `_start`, a thread's start.
    Outermost = 1,
    /// A signal interrupted the next frame.
    Signal = 2,
    /// The loader knows no code here, or the code has no unwind tables.
    Unknown = 3,
    /// The tables have a rule that does not fit 29 bits.
    Unfit = 4,
}

/// The register from which the CFA is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Sp = 0,
    Bp = 1,
}

impl Rule {
    pub(super) const BITS: u32 = 29;

    /// Returns the rule in the bits of a cache entry, if they are at most [`Rule::BITS`].
    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Option<Rule> {
        (bits < 1 << Rule::BITS).then_some(Rule(bits as u32))
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// Returns why no frame follows, if none does.
    pub(super) fn why_stop(self) -> Option<Stop> {
        let stops = [Stop::Outermost, Stop::Signal, Stop::Unknown, Stop::Unfit];
        stops.into_iter().find(|stop| self == Rule::stop(*stop))
    }
}
