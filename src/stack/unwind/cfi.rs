//! The rule of an address, read from its module's unwind tables.
//!
//! gimli reads `.eh_frame_hdr` and `.eh_frame` in place; its working storage is
//! on the stack, so nothing is allocated.
#![forbid(unsafe_code)]

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Error, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow, X86_64,
};

use super::{
    super::modules::Mapping,
    rule::{Base, Rule, Stop},
};

/// Room for a row of every register that x86-64 code saves, four rows deep.
/// Tables that need more are reported as unfit.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// The rule at a return address.
#[inline(never)]
pub(super) fn rule_at(module: &Mapping, return_address: usize) -> Rule {
    // A call that never returns may be the last instruction of its function,
    // so the row is that of the call, one byte before.
    match read_rule(module, return_address.wrapping_sub(1)) {
        Ok(rule) => rule,
        Err(Error::NoUnwindInfoForAddress) => Rule::stop(Stop::Unknown),
        Err(_) => Rule::stop(Stop::Unfit),
    }
}

fn read_rule(module: &Mapping, address: usize) -> gimli::Result<Rule> {
    let bytes_from = |address| module.bytes_from(address).ok_or(Error::OffsetOutOfBounds(0));
    let index = module.unwind_index().ok_or(Error::NoUnwindInfoForAddress)?;
    let header = EhFrameHdr::new(bytes_from(index)?, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index as u64);
    let header = header.parse(&bases, 8)?;
    let eh_frame = header.eh_frame_ptr().direct()?;
    let bases = bases.set_eh_frame(eh_frame);
    let section = EhFrame::new(bytes_from(eh_frame as usize)?, LittleEndian);
    let table = header.table().ok_or(Error::UnsupportedOffset)?;
    let fde = table.fde_for_address(&section, &bases, address as u64, EhFrame::cie_from_offset)?;
    if fde.is_signal_trampoline() {
        return Ok(Rule::stop(Stop::Signal));
    }
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let row = fde.unwind_info_for_address(&section, &bases, &mut context, address as u64)?;
    Ok(rule_of(row))
}

fn rule_of(row: &UnwindTableRow<usize, OnStack>) -> Rule {
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
