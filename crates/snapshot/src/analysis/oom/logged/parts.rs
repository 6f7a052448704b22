//! The memory of a device by who holds it, as far as a message shows.

use crate::log::{Message, OtherProcess, Program};

/// The memory of a device in parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    /// What this process holds outside its allocator: CUDA's context, libraries.
    pub(super) context_bytes: Option<u64>,
    /// The process that is probably this one under another PID: a container's PIDs differ from the host's.
    pub(super) guessed: Option<OtherProcess>,
    /// The other processes, the largest first.
    pub(super) others: Vec<OtherProcess>,
    /// The part of the device that is not accounted for.
    pub(super) unexplained_bytes: Option<u64>,
    /// By how much the parts exceed the device.
    pub(super) excess_bytes: u64,
}

impl Parts {
    pub(super) fn of(message: &Message) -> Parts {
        if !matches!(message.program, Program::Torch | Program::Memreel) {
            return Parts::default();
        }
        let mut others = message.others.clone();
        others.sort_by_key(|other| std::cmp::Reverse(other.bytes));
        let reserved = message.reserved_bytes();
        let guessed = match (message.process_bytes, reserved) {
            (None, Some(reserved)) => {
                let least = reserved.saturating_sub(message.rounding_bytes);
                // The smallest process that can contain what the allocator holds.
                others.iter().rposition(|other| other.bytes >= least).map(|at| others.remove(at))
            }
            _ => None,
        };
        let process = message.process_bytes.or(guessed.map(|process| process.bytes));
        let context_bytes = reserved.and_then(|reserved| Some(process?.saturating_sub(reserved)));
        let of_others = others.iter().map(|other| other.bytes).fold(0, u64::saturating_add);
        let known = process
            .or(reserved)
            .and_then(|own| Some(own.saturating_add(of_others).saturating_add(message.free_bytes?)));
        let capacity = message.capacity_bytes;
        Parts {
            context_bytes,
            guessed,
            others,
            unexplained_bytes: known.and_then(|known| Some(capacity?.saturating_sub(known))),
            excess_bytes: known.zip(capacity).map_or(0, |(known, capacity)| known.saturating_sub(capacity)),
        }
    }

    /// Returns the bytes of the other processes.
    pub(super) fn others_bytes(&self) -> u64 {
        self.others.iter().map(|other| other.bytes).fold(0, u64::saturating_add)
    }
}
