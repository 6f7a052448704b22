//! The walk on aarch64: the return address is where the function saved `x30`, usually next to `x29` in a frame record
//! at either end of the frame.

use std::arch::asm;

use gimli::{AArch64, CfaRule, RegisterRule, UnwindContextStorage, UnwindTableRow, Vendor};

use super::{
    super::{
        rule::{Base, Rule, Stop},
        step::Registers,
    },
    places::{Places, kept_apart},
};

pub(in super::super) const CODE_ALIGN_BITS: u32 = 2;

/// `mov x8, #139; svc #0`, `rt_sigreturn`. The kernel's tables omit it, because unwinders recognise the code.
pub(in super::super) const SIGNAL_RETURN: Option<[u8; 8]> =
    Some([0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]);

/// Includes the instruction that marks where return addresses are signed.
pub(in super::super) const TABLES: Vendor = Vendor::AArch64;

/// The most words between the base register and the CFA, and between the CFA and the return address: 64 KiB.
const MAX_WORDS: u32 = (1 << 13) - 1;

/// Returns the registers of the function that this is inlined into, which must not return before they are used.
#[inline(always)]
pub(in super::super) fn here() -> Registers {
    let (ip, sp, bp);
    // SAFETY: three registers are read; nothing is written but the outputs.
    // The address is that of the second instruction, so the byte before it
    // is in the first, as with a return address and its call.
    unsafe {
        asm!(
            "adr {ip}, . + 4",
            "mov {sp}, sp",
            "mov {bp}, x29",
            ip = out(reg) ip,
            sp = out(reg) sp,
            bp = out(reg) bp,
            options(nomem, nostack, preserves_flags),
        );
    }
    Registers { ip, sp, bp }
}

/// Returns an address without its signature, which is in the bits above the address. Linux gives programs addresses of
/// more than 48 bits only on request. A mask costs one instruction; `xpaclri` would need `x30` for each.
#[inline(always)]
pub(in super::super) fn return_address(word: usize) -> usize {
    word & ((1 << 48) - 1)
}

/// The number of words from the return address to the caller's stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Depth(u32);

impl Depth {
    /// Whether it needs no comparison.
    pub(in super::super) const IS_FIXED: bool = false;
    pub(in super::super) const NONE: Depth = Depth(0);
}

/// ```text
///  bit 28            16 15           3 2    1   0
///     ├─────────────────┼──────────────┼──────┼───┤
///     │ return address, │ CFA − base,  │ x29  │ b │   b: the base is x29, else sp
///     │ words below CFA │ in words     │      │   │   x29: 0 below the return address, 2 above it, 1 unchanged
///     └─────────────────┴──────────────┴──────┴───┘   CFA 0: no frame follows; the upper field is the reason
/// ```
///
/// In LLVM functions that save an odd number of general registers and an odd number of others, `x29` is not a multiple
/// of 16.
impl Rule {
    const BP_BELOW: u32 = 0;
    const BP_UNCHANGED: u32 = 1;
    const BP_ABOVE: u32 = 2;

    /// Returns the rule of a frame whose CFA is `cfa_bytes` above its base, with the return address `slot_bytes` below
    /// the CFA, and the caller's `x29` `saved_bp_bytes` below the CFA, which must be next to the return address, or
    /// still in the register.
    ///
    /// A register that is saved below the base does not fit: the walk relies on this.
    fn frame(base: Base, cfa_bytes: i64, slot_bytes: i64, saved_bp_bytes: Option<i64>) -> Rule {
        let units = |bytes: i64, unit: i64, most: u32| {
            let n = (bytes % unit == 0).then(|| u32::try_from(bytes / unit).ok()).flatten();
            n.filter(|n| (1..=most).contains(n))
        };
        let lowest = slot_bytes.max(saved_bp_bytes.unwrap_or(0));
        let fits = (8..=cfa_bytes).contains(&lowest) && saved_bp_bytes.is_none_or(|bytes| bytes >= 8);
        let saved = match saved_bp_bytes.map(|bytes| bytes - slot_bytes) {
            None => Some(Rule::BP_UNCHANGED),
            Some(8) => Some(Rule::BP_BELOW),
            Some(-8) => Some(Rule::BP_ABOVE),
            Some(_) => None,
        };
        match (units(cfa_bytes, 8, MAX_WORDS), units(slot_bytes, 8, MAX_WORDS), saved) {
            (Some(cfa), Some(slot), Some(saved)) if fits => {
                Rule(base as u32 | saved << 1 | cfa << 3 | slot << 16)
            }
            _ => Rule::stop(Stop::Unfit),
        }
    }

    pub(in super::super) const fn stop(stop: Stop) -> Rule {
        Rule((stop as u32) << 16 | Rule::BP_UNCHANGED << 1)
    }

    #[inline(always)]
    pub(in super::super) fn is_frame(self) -> bool {
        self.0 & 0xfff8 != 0
    }

    /// Returns whether the caller's frame pointer is below the return address, as in a frame record, at which `x29`
    /// points.
    pub(in super::super) fn has_frame_record(self) -> bool {
        self.is_frame() && self.saved_bp() == Rule::BP_BELOW
    }

    #[inline(always)]
    pub(in super::super) fn counts_from_bp(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    fn cfa_bytes(self) -> usize {
        self.0 as usize & 0xfff8
    }

    /// Returns the distance of the return address below the CFA, in bytes.
    #[inline(always)]
    fn slot_bytes(self) -> usize {
        (self.0 as usize >> 16) << 3
    }

    #[inline(always)]
    fn saved_bp(self) -> u32 {
        self.0 >> 1 & 3
    }

    #[inline(always)]
    pub(in super::super) fn saves_bp(self) -> bool {
        self.saved_bp() != Rule::BP_UNCHANGED
    }

    /// Returns where the frame keeps what the caller needs.
    #[inline(always)]
    pub(in super::super) fn places<const POINTERS_FIRST: bool>(self, sp: usize, bp: usize) -> Places {
        let base = if self.counts_from_bp() { bp } else { sp };
        let slot = base.wrapping_add(self.cfa_bytes()).wrapping_sub(self.slot_bytes());
        // A branch without an effect: the processor reads the frame record at x29 and looks for the next rule while
        // this one is still on its way from memory.
        let of_record = bp.wrapping_add(8);
        let slot = if POINTERS_FIRST && slot == of_record { kept_apart(of_record) } else { slot };
        Places { slot, saved: self.saved_slot(slot) }
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
        (sp <= slot)
            & (sp <= saved)
            & (slot <= highest)
            & (self.caller_sp(slot).wrapping_sub(8) <= highest)
            & (slot & 7 == 0)
    }

    /// Returns where the caller's frame pointer is saved, given the slot of the return address.
    #[inline(always)]
    pub(in super::super) fn saved_slot(self, slot: usize) -> usize {
        slot.wrapping_add(self.saved_bp() as usize * 8).wrapping_sub(8)
    }

    /// Returns the stack pointer in the caller.
    #[inline(always)]
    pub(in super::super) fn caller_sp(self, slot: usize) -> usize {
        slot.wrapping_add(self.slot_bytes())
    }

    #[inline(always)]
    pub(in super::super) fn depth(self) -> Depth {
        Depth(self.0 >> 16)
    }
}

/// Returns the rule of a row.
pub(in super::super) fn rule_of<S: UnwindContextStorage<usize>>(row: &UnwindTableRow<usize, S>) -> Rule {
    // Whether the address is signed does not matter: `return_address` removes a signature.
    let slot = match row.register(AArch64::X30) {
        Some(RegisterRule::Undefined) => return Rule::stop(Stop::Outermost),
        Some(RegisterRule::Offset(offset)) => -offset,
        _ => return Rule::stop(Stop::Unfit),
    };
    let (base, cfa_bytes) = match row.cfa() {
        CfaRule::RegisterAndOffset { register: AArch64::SP, offset } => (Base::Sp, *offset),
        CfaRule::RegisterAndOffset { register: AArch64::X29, offset } => (Base::Bp, *offset),
        _ => return Rule::stop(Stop::Unfit),
    };
    let saved_bp = match row.register(AArch64::X29) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(offset)) => Some(-offset),
        _ => return Rule::stop(Stop::Unfit),
    };
    // The caller's sp is the CFA, unless a row says otherwise.
    match row.register(AArch64::SP) {
        None | Some(RegisterRule::SameValue | RegisterRule::ValOffset(0)) => {}
        _ => return Rule::stop(Stop::Unfit),
    }
    Rule::frame(base, cfa_bytes, slot, saved_bp)
}

/// Returns a rule for tests: the return address is the first word below the CFA.
#[cfg(test)]
pub(in super::super) fn sample(base: Base, cfa_bytes: i64, saved_bp_bytes: Option<i64>) -> Rule {
    Rule::frame(base, cfa_bytes, 8, saved_bp_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_returns_what_it_was_made_of() {
        // gcc puts the record at the low end of a frame, and clang at the high end.
        let low = Rule::frame(Base::Sp, 48, 40, Some(48));
        assert!(low.is_frame() && !low.counts_from_bp() && low.saves_bp() && low.has_frame_record());
        assert_eq!((low.cfa_bytes(), low.slot_bytes(), low.depth()), (48, 40, Depth(5)));
        let Places { slot, saved } = low.places::<true>(0x1000, 0x1000);
        assert_eq!((slot, saved, low.caller_sp(slot)), (0x1008, 0x1000, 0x1030));
        let high = Rule::frame(Base::Bp, 16, 8, Some(16));
        let Places { slot, saved } = high.places::<false>(0, 0x2000);
        assert_eq!((slot, saved, high.caller_sp(slot)), (0x2008, 0x2000, 0x2010));
        let above = Rule::frame(Base::Sp, 32, 32, Some(24));
        let Places { slot, saved } = above.places::<true>(0x1000, 0x5000);
        assert_eq!((slot, saved, above.caller_sp(slot)), (0x1000, 0x1008, 0x1020));
        assert!(above.saves_bp() && !above.has_frame_record());
        let none = Rule::frame(Base::Sp, 16, 16, None);
        let Places { slot, saved } = none.places::<true>(0x1000, 0x5000);
        assert_eq!((slot, saved, none.saves_bp()), (0x1000, 0x1000, false));
        for rule in [low, high, above, none] {
            assert_eq!((Rule::from_bits(rule.bits()), rule.why_stop()), (Some(rule), None));
        }
        let largest = Rule::frame(Base::Bp, 8 * i64::from(MAX_WORDS), 8 * i64::from(MAX_WORDS), None);
        assert!(Rule::from_bits(largest.bits()) == Some(largest) && largest.is_frame());
        assert_eq!(Rule::from_bits(1 << Rule::BITS | largest.bits()), None);
    }

    #[test]
    fn a_rule_that_does_not_fit_is_unfit() {
        let unfit = Rule::stop(Stop::Unfit);
        for (cfa, slot, saved) in [
            (0, 8, None),
            (-16, 8, None),
            (20, 8, None),
            (1 << 16, 8, None),
            (1 << 16, 1 << 16, None),
            (16, 0, None),
            (16, 24, None),
            (16, -8, None),
            (16, 16, Some(24)),
            (16, 8, Some(0)),
            (48, 8, Some(24)),
            (16, 12, None),
        ] {
            assert_eq!(Rule::frame(Base::Sp, cfa, slot, saved), unfit, "{cfa} {slot} {saved:?}");
        }
        assert!(!unfit.is_frame() && !unfit.has_frame_record());
        assert_eq!(unfit.why_stop(), Some(Stop::Unfit));
        let sp = 0x1000;
        assert!(!unfit.is_within(unfit.places::<true>(sp, sp), sp, 0xfff8), "it leads nowhere");
    }

    #[test]
    fn what_is_outside_of_the_stack_is_not_read() {
        let (sp, highest) = (0x1000, 0x1ff8);
        let is_within = |rule: Rule, bp: usize| rule.is_within(rule.places::<true>(sp, bp), sp, highest);
        let record = Rule::frame(Base::Bp, 64, 56, Some(64));
        assert!(is_within(record, 0x1000) && is_within(record, 0x1fc0));
        for bp in [0xff8, 0xff0, 0x1fc8, 0x2000, 0x1004, 0, usize::MAX - 7, usize::MAX - 63] {
            assert!(!is_within(record, bp), "{bp:x}");
        }
    }

    #[test]
    fn a_signature_is_taken_away() {
        let signed: usize;
        // SAFETY: signs an address where the processor can; elsewhere it does nothing.
        unsafe {
            asm!("mov x30, {0}", "hint #25", "mov {0}, x30", inout(reg) 0x7f12_3456_7890_usize => signed, out("x30") _);
        }
        assert_eq!(return_address(signed), 0x7f12_3456_7890);
        assert_eq!(return_address(0x00ab_7f12_3456_7890), 0x7f12_3456_7890);
    }
}
