//! The walk on x86-64: the return address is always the first word below the caller's stack pointer.

use std::arch::asm;

use gimli::{CfaRule, RegisterRule, UnwindContextStorage, UnwindTableRow, Vendor, X86_64};

use super::{
    super::{
        rule::{Base, Rule, Stop},
        step::Registers,
    },
    places::Places,
};

pub(in super::super) const CODE_ALIGN_BITS: u32 = 0;

/// The tables mark this code.
pub(in super::super) const SIGNAL_RETURN: Option<[u8; 8]> = None;

pub(in super::super) const TABLES: Vendor = Vendor::Default;

/// The most words that fit between the base register and the CFA, or between the CFA
/// and the saved `rbp`: 128 KiB.
const MAX_WORDS: usize = (1 << 14) - 1;

/// Returns the registers of the function that this is inlined into, which must not return before they are used.
#[inline(always)]
pub(in super::super) fn here() -> Registers {
    let (ip, sp, bp);
    // SAFETY: three registers are read; nothing is written but the outputs.
    // The address is that of the second instruction, so the byte before it
    // is in the first, as with a return address and its call.
    unsafe {
        asm!(
            "lea {ip}, [rip]",
            "mov {sp}, rsp",
            "mov {bp}, rbp",
            ip = out(reg) ip,
            sp = out(reg) sp,
            bp = out(reg) bp,
            options(nomem, nostack, preserves_flags),
        );
    }
    Registers { ip, sp, bp }
}

#[inline(always)]
pub(in super::super) fn return_address(word: usize) -> usize {
    word
}

/// Always one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Depth;

impl Depth {
    /// Whether it needs no comparison.
    pub(in super::super) const IS_FIXED: bool = true;
    pub(in super::super) const NONE: Depth = Depth;
}

/// ```text
///  bit 28           15 14            1   0
///     ├────────────────┼──────────────┼───┤
///     │ saved rbp,     │ CFA − base,  │ b │   b: the base is rbp, else rsp
///     │ words below CFA│ in words     │   │   saved rbp 1: rbp is unchanged
///     └────────────────┴──────────────┴───┘   CFA 0: no frame follows; the upper field is the reason
/// ```
///
/// The return address is the first word below the CFA, so a saved `rbp` is never there, and 1 can mean that none is
/// saved.
impl Rule {
    /// The rule of a function with a frame pointer: `rbp` points at the caller's `rbp`, and the return address is above
    /// that.
    const FRAME_POINTER: Rule = Rule(1 | 2 << 1 | 2 << 15);

    /// Returns the rule of a frame whose CFA is `cfa_bytes` above its base, with the caller's `rbp` `saved_bp_bytes`
    /// below the CFA, or still in the register.
    ///
    /// An `rbp` that is saved below the base does not fit: the walk relies on this.
    fn frame(base: Base, cfa_bytes: i64, saved_bp_bytes: Option<i64>) -> Rule {
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

    pub(in super::super) const fn stop(stop: Stop) -> Rule {
        Rule((stop as u32) << 15)
    }

    #[inline(always)]
    pub(in super::super) fn is_frame(self) -> bool {
        self.0 & 0x7ffe != 0
    }

    /// Returns whether the frame pointer points at the caller's, next to the return address.
    pub(in super::super) fn has_frame_record(self) -> bool {
        self == Rule::FRAME_POINTER
    }

    #[inline(always)]
    pub(in super::super) fn counts_from_bp(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    fn cfa_bytes(self) -> usize {
        (self.0 as usize & 0x7ffe) << 2
    }

    /// Returns how many bytes below the CFA the caller's `rbp` is saved; 8 if it is not saved.
    #[inline(always)]
    fn saved_bp_bytes(self) -> usize {
        (self.0 as usize >> 15) << 3
    }

    #[inline(always)]
    pub(in super::super) fn saves_bp(self) -> bool {
        self.0 >> 15 != 1
    }

    /// Returns where the frame keeps what the caller needs.
    #[inline(always)]
    pub(in super::super) fn places<const POINTERS_FIRST: bool>(self, sp: usize, bp: usize) -> Places {
        if POINTERS_FIRST && self == Rule::FRAME_POINTER {
            return Places { slot: bp.wrapping_add(8), saved: bp };
        }
        let base = if self.counts_from_bp() { bp } else { sp };
        let cfa = base.wrapping_add(self.cfa_bytes());
        Places { slot: cfa.wrapping_sub(8), saved: cfa.wrapping_sub(self.saved_bp_bytes()) }
    }

    /// Returns whether the places are aligned, at or above the stack pointer, and at most at the stack's `highest`
    /// word. A rule that ends the walk puts the slot below the stack pointer.
    #[inline(always)]
    pub(in super::super) fn is_within(
        self,
        Places { slot, saved }: Places,
        sp: usize,
        highest: usize,
    ) -> bool {
        (sp <= saved) & (saved <= slot) & (slot <= highest) & (slot & 7 == 0)
    }

    /// Returns where the caller's frame pointer is saved, given the slot of the return address.
    #[inline(always)]
    pub(in super::super) fn saved_slot(self, slot: usize) -> usize {
        slot + 8 - self.saved_bp_bytes()
    }

    /// Returns the stack pointer in the caller.
    #[inline(always)]
    pub(in super::super) fn caller_sp(self, slot: usize) -> usize {
        slot + 8
    }

    #[inline(always)]
    pub(in super::super) fn depth(self) -> Depth {
        Depth
    }
}

/// Returns the rule of a row.
pub(in super::super) fn rule_of<S: UnwindContextStorage<usize>>(row: &UnwindTableRow<usize, S>) -> Rule {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::stop(Stop::Outermost),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return Rule::stop(Stop::Unfit),
    }
    let (base, cfa_bytes) = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => (Base::Sp, *offset),
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => (Base::Bp, *offset),
        _ => return Rule::stop(Stop::Unfit),
    };
    let saved_bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(offset)) => Some(-offset),
        _ => return Rule::stop(Stop::Unfit),
    };
    // The caller's rsp is the CFA, unless a row says otherwise.
    match row.register(X86_64::RSP) {
        None | Some(RegisterRule::SameValue | RegisterRule::ValOffset(0)) => {}
        _ => return Rule::stop(Stop::Unfit),
    }
    Rule::frame(base, cfa_bytes, saved_bp)
}

/// Returns a rule for tests: the return address is the first word below the CFA.
#[cfg(test)]
pub(in super::super) fn sample(base: Base, cfa_bytes: i64, saved_bp_bytes: Option<i64>) -> Rule {
    Rule::frame(base, cfa_bytes, saved_bp_bytes)
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
