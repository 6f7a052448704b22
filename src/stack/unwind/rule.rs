//! Unwind rules: 29 bits that locate the caller's frame.
#![forbid(unsafe_code)]

/// The most words that fit between the base register and the CFA, or between the CFA
/// and the saved `rbp`: 128 KiB.
const MAX_WORDS: usize = (1 << 14) - 1;

/// The unwind rule of one address.
///
/// ```text
///  bit 28           15 14            1   0
///     ├────────────────┼──────────────┼───┤
///     │ saved rbp,     │ CFA − base,  │ b │   b: the base is rbp, else rsp
///     │ words below CFA│ in words     │   │   saved rbp 1: rbp is unchanged
///     └────────────────┴──────────────┴───┘   CFA 0: no frame follows; the upper field is the reason
/// ```
///
/// The CFA, DWARF's canonical frame address, is the value of `rsp` once the
/// function has returned. The return address is the first word below it, so a
/// saved `rbp` is never there, and 1 is free to mean that none is saved. The walk
/// then reads "the saved rbp" all the same, and saves a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Rule(u32);

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

    /// A function with a frame pointer: `rbp` points at the caller's `rbp`,
    /// and above that is the return address.
    pub(super) const FRAME_POINTER: Rule = Rule(1 | 2 << 1 | 2 << 15);

    /// A frame whose CFA is `cfa_bytes` above its base, with the caller's `rbp`
    /// `saved_bp_bytes` below the CFA, or still in the register.
    ///
    /// A saved `rbp` below the base does not fit: the walk relies on its absence.
    pub(super) fn frame(base: Base, cfa_bytes: i64, saved_bp_bytes: Option<i64>) -> Rule {
        let words = |bytes: i64| -> Option<u32> {
            let bytes = usize::try_from(bytes).ok()?;
            let fits = bytes % 8 == 0 && (1..=MAX_WORDS).contains(&(bytes / 8));
            fits.then_some((bytes / 8) as u32)
        };
        match (words(cfa_bytes), saved_bp_bytes.map(words)) {
            (Some(cfa), None) => Rule(base as u32 | cfa << 1 | 1 << 15),
            (Some(cfa), Some(Some(saved))) if (2..=cfa).contains(&saved) => {
                Rule(base as u32 | cfa << 1 | saved << 15)
            }
            _ => Rule::stop(Stop::Unfit),
        }
    }

    pub(super) fn stop(stop: Stop) -> Rule {
        Rule((stop as u32) << 15)
    }

    /// The rule in the bits of a cache entry, if they are at most [`Rule::BITS`].
    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Option<Rule> {
        (bits < 1 << Rule::BITS).then_some(Rule(bits as u32))
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    #[inline(always)]
    pub(super) fn is_frame(self) -> bool {
        self.0 & 0x7ffe != 0
    }

    /// Why no frame follows, if none does.
    pub(super) fn why_stop(self) -> Option<Stop> {
        let stops = [Stop::Outermost, Stop::Signal, Stop::Unknown, Stop::Unfit];
        stops.into_iter().find(|stop| self == Rule::stop(*stop))
    }

    #[inline(always)]
    pub(super) fn counts_from_bp(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    pub(super) fn cfa_bytes(self) -> usize {
        (self.0 as usize & 0x7ffe) << 2
    }

    /// How many bytes below the CFA the caller's `rbp` is saved; 8 when it is not saved.
    #[inline(always)]
    pub(super) fn saved_bp_bytes(self) -> usize {
        (self.0 as usize >> 15) << 3
    }

    #[inline(always)]
    pub(super) fn saves_bp(self) -> bool {
        self.0 >> 15 != 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_returns_what_it_was_made_of() {
        let frame = Rule::frame(Base::Sp, 48, Some(16));
        assert!(frame.is_frame() && !frame.counts_from_bp() && frame.saves_bp());
        assert_eq!((frame.cfa_bytes(), frame.saved_bp_bytes()), (48, 16));
        assert_eq!(Rule::from_bits(frame.bits()), Some(frame));
        let largest = Rule::frame(Base::Bp, 8 * MAX_WORDS as i64, Some(8 * MAX_WORDS as i64));
        assert_eq!((largest.cfa_bytes(), largest.saved_bp_bytes()), (8 * MAX_WORDS, 8 * MAX_WORDS));
        assert_eq!(Rule::from_bits(largest.bits()), Some(largest));
        assert_eq!(Rule::from_bits(1 << Rule::BITS | largest.bits()), None);
        assert_eq!(Rule::frame(Base::Bp, 16, Some(16)), Rule::FRAME_POINTER);
        assert!(!Rule::frame(Base::Sp, 8, None).saves_bp());
    }

    #[test]
    fn a_rule_that_does_not_fit_is_unfit() {
        let unfit = Rule::stop(Stop::Unfit);
        for (cfa, saved) in [
            (0, None),
            (-8, None),
            (12, None),
            (1 << 17, None),
            (16, Some(8)),
            (16, Some(24)),
            (16, Some(-8)),
        ] {
            assert_eq!(Rule::frame(Base::Sp, cfa, saved), unfit, "{cfa} {saved:?}");
        }
        assert!(!unfit.is_frame());
        assert_eq!(unfit.why_stop(), Some(Stop::Unfit));
        assert_eq!(Rule::FRAME_POINTER.why_stop(), None);
    }
}
