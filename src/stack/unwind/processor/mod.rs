//! What the walk must know about the processor: its registers, the 29 bits of a rule, and how a row of the unwind
//! tables becomes a rule.
//!
//! | item | what it is |
//! | --- | --- |
//! | `here` | the registers of the function that it is inlined into |
//! | `CODE_ALIGN_BITS` | the low bits that are 0 in every address of code |
//! | `return_address` | the address in a word of the stack |
//! | `SIGNAL_RETURN` | the code by which a handler returns, if the tables do not mark it |
//! | `TABLES` | whose register and instruction numbers the tables use |
//! | `rule_of` | a row of the tables as a rule |
//! | `Rule` | `stop`, `is_frame`, `counts_from_bp`, `saves_bp`, `has_frame_record`, and locations: `places`, `is_within`, `saved_slot`, `caller_sp` |
//! | `Depth` | how far the return address is below the caller's stack pointer, where that is not always one word |

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod places;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
pub(super) use places::{Places, kept_apart};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;
