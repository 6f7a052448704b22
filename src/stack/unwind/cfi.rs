//! Reads the rule of an address from its module's unwind tables.
//!
//! gimli reads `.eh_frame_hdr` and `.eh_frame` in place; its working storage is
//! on the stack, so nothing is allocated.
#![forbid(unsafe_code)]

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, Error, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow,
};

use super::{
    super::modules::Mapping,
    processor::{SIGNAL_RETURN, TABLES, rule_of},
    rule::{Rule, Stop},
};

/// Storage for a row of every register that code saves, four rows deep. Tables that need more are reported as unfit.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Returns the rule at a return address.
#[inline(never)]
pub(super) fn rule_at(module: &Mapping, return_address: usize) -> Rule {
    // A call that never returns may be the last instruction of its function, so the row of the call, one byte before,
    // is used.
    match read_rule(module, return_address.wrapping_sub(1)) {
        Ok(rule) => rule,
        Err(Error::NoUnwindInfoForAddress) if is_signal_return(module, return_address) => {
            Rule::stop(Stop::Signal)
        }
        Err(Error::NoUnwindInfoForAddress) => Rule::stop(Stop::Unknown),
        Err(_) => Rule::stop(Stop::Unfit),
    }
}

fn is_signal_return(module: &Mapping, address: usize) -> bool {
    SIGNAL_RETURN.is_some_and(|code| module.bytes_from(address).is_some_and(|bytes| bytes.starts_with(&code)))
}

fn read_rule(module: &Mapping, address: usize) -> gimli::Result<Rule> {
    let bytes_from = |address| module.bytes_from(address).ok_or(Error::OffsetOutOfBounds(0));
    let index = module.unwind_index().ok_or(Error::NoUnwindInfoForAddress)?;
    let header = EhFrameHdr::new(bytes_from(index)?, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index as u64);
    let header = header.parse(&bases, 8)?;
    let eh_frame = header.eh_frame_ptr().direct()?;
    let bases = bases.set_eh_frame(eh_frame);
    let mut section = EhFrame::new(bytes_from(eh_frame as usize)?, LittleEndian);
    section.set_vendor(TABLES);
    let table = header.table().ok_or(Error::UnsupportedOffset)?;
    let fde = table.fde_for_address(&section, &bases, address as u64, EhFrame::cie_from_offset)?;
    if fde.is_signal_trampoline() {
        return Ok(Rule::stop(Stop::Signal));
    }
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let row = fde.unwind_info_for_address(&section, &bases, &mut context, address as u64)?;
    Ok(rule_of(row))
}
