//! The causes of a failed request by its message.

use super::{
    super::{
        cause::{Cause, CauseKind},
        causes::{MANY_REQUESTS, MINOR, UNUSABLE},
    },
    LoggedOom,
};
use crate::{
    analysis::{
        Bytes,
        oom::{OomReport, Verdict},
    },
    log::Program,
};

impl LoggedOom<'_> {
    /// Returns the causes in the order of [`Explanation::causes`](super::super::Explanation::causes): memory that could
    /// not be used and memory of others, the most bytes first, then a limit, or what is in use without another cause,
    /// and at the end the minor ones. None if the message lacks the figures that decide, or its end.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        let limited = self.limited();
        let Some(report) = &self.report else {
            if self.message.is_cut {
                return self.occupied_of_cut().into_iter().collect();
            }
            return limited.into_iter().chain(self.too_large()).collect();
        };
        let mut causes: Vec<Cause> =
            [self.unusable(report), self.occupied(report)].into_iter().flatten().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.bytes));
        let (mut minor, major): (Vec<Cause>, Vec<Cause>) =
            causes.into_iter().partition(|cause| is_minor(report, cause));
        let mut causes: Vec<Cause> = major.into_iter().chain(limited).collect();
        if causes.is_empty() {
            causes.push(self.full(report));
        }
        causes.append(&mut minor);
        causes
    }

    fn limited(&self) -> Option<Cause> {
        let (message, asked) = (self.message, self.message.requested_bytes);
        let held = match (&self.report, message.program) {
            (Some(report), Program::Torch | Program::Memreel) if report.is_limited() => {
                report.totals.reserved_bytes
            }
            (None, Program::CuPy | Program::Mps) => {
                let held = message.allocated_bytes?.saturating_add(message.other_bytes.unwrap_or(0));
                (held.saturating_add(asked) > message.limit_bytes?).then_some(held)?
            }
            _ => return None,
        };
        let finding = match (message.limit_bytes, message.free_bytes) {
            _ if message.is_beyond_reserve => format!(
                "{} was requested, more than an expandable segment can hold: a request never spans two",
                Bytes(asked)
            ),
            (Some(limit), free) => {
                let device =
                    free.map_or_else(String::new, |free| format!("; the device had {} free", Bytes(free)));
                format!(
                    "this process is limited to {}: it holds {}, and {} more would exceed the limit{device}",
                    Bytes(limit),
                    Bytes(held),
                    Bytes(asked),
                )
            }
            (None, free) => format!(
                "the device had {} free, more than the {} that was requested, and the message names no limit: the driver \
                 refused",
                Bytes(free.unwrap_or(0)),
                Bytes(asked),
            ),
        };
        let bytes = message.free_bytes.unwrap_or(asked);
        let advice = Some(self.limit_advice(held.saturating_add(asked)));
        Some(Cause { kind: CauseKind::Limited, bytes, finding, advice, conf: None })
    }

    fn unusable(&self, report: &OomReport) -> Option<Cause> {
        let verdict = report.verdict_of_free()?;
        let asked = Bytes(report.requested_bytes);
        let free_here = Bytes(report.free_here_bytes);
        let finding = match verdict {
            Verdict::Elsewhere => format!(
                "{} is free in private pools (CUDA graphs, MemPools), which no other request can use; \
                 {free_here} is free elsewhere, and {asked} was requested",
                Bytes(report.free_elsewhere_bytes),
            ),
            _ if self.is_of_pool() => format!(
                "{free_here} of the pool's {} is free, but no single piece is as large as {asked}",
                Bytes(report.totals.reserved_bytes),
            ),
            _ if report.free_here_bytes >= report.requested_bytes => format!(
                "{free_here} is reserved but free, more than the {asked} that was requested: it is in pieces, or \
                 belongs to other streams or pools (the message does not say which)",
            ),
            _ => format!(
                "{free_here} is reserved but free and {} is free on the device, together enough for {asked}, but not \
                 in one piece",
                Bytes(report.device_free_bytes),
            ),
        };
        let bytes = report.all_free_bytes();
        let (advice, conf) = self.unusable_advice(verdict);
        Some(Cause { kind: CauseKind::Unusable(verdict), bytes, finding, advice, conf })
    }

    fn occupied(&self, report: &OomReport) -> Option<Cause> {
        let bytes = report.outside_bytes().filter(|_| report.is_occupied())?;
        let mut parts: Vec<String> = self
            .parts
            .others
            .iter()
            .take(4)
            .map(|other| format!("process {} has {}", other.pid, Bytes(other.bytes)))
            .collect();
        if let Some(context) = self.parts.context_bytes.filter(|context| *context > 0) {
            parts.push(format!("this process has {} outside its allocator", Bytes(context)));
        }
        if let Some(unexplained) =
            self.parts.unexplained_bytes.filter(|rest| *rest > self.message.rounding_bytes * 4)
        {
            parts.push(format!(
                "{} belongs to the driver, or to processes that the message does not name",
                Bytes(unexplained)
            ));
        }
        let finding = format!(
            "{} of {} is used outside this process's allocator: {}",
            Bytes(bytes),
            Bytes(report.device_total_bytes.unwrap_or(0)),
            clauses(&parts),
        );
        Some(Cause {
            kind: CauseKind::Occupied,
            bytes,
            finding,
            advice: Some(self.occupied_advice(bytes)),
            conf: None,
        })
    }

    /// Returns the size of what is in use as the cause.
    fn full(&self, report: &OomReport) -> Cause {
        let bytes = report.totals.active_bytes;
        // Free memory in private pools is not available to other requests.
        let usable_bytes = report.free_here_bytes.saturating_add(report.usable_device_bytes());
        let elsewhere = if report.free_elsewhere_bytes > 0 { " outside of private pools" } else { "" };
        let more = match report.requested_bytes.saturating_sub(usable_bytes) {
            0 => String::new(),
            more => format!(", {} more than is free{elsewhere}", Bytes(more)),
        };
        let finding =
            format!("{} is in use and {} was requested{more}", Bytes(bytes), Bytes(report.requested_bytes));
        Cause { kind: CauseKind::Full, bytes, finding, advice: Some(self.full_advice()), conf: None }
    }

    /// Returns the cause of a message without an end, if the processes that it names hold enough for the request.
    fn occupied_of_cut(&self) -> Option<Cause> {
        let (message, others) = (self.message, &self.parts.others);
        let bytes = others.iter().map(|other| other.bytes).fold(0, u64::saturating_add);
        let capacity = message.capacity_bytes?;
        let is_enough = message.free_bytes.unwrap_or(0).saturating_add(bytes) >= message.requested_bytes;
        let named =
            others.iter().take(4).map(|other| format!("process {} has {}", other.pid, Bytes(other.bytes)));
        let named = named.collect::<Vec<_>>().join(", ");
        (bytes > capacity / 10 && is_enough).then(|| Cause {
            kind: CauseKind::Occupied,
            bytes,
            finding: format!("{named} of {}; the end of the message is missing", Bytes(capacity)),
            advice: Some(self.occupied_advice(bytes)),
            conf: None,
        })
    }

    /// Returns the cause of a message that only has what is free, or a limit below the request.
    fn too_large(&self) -> Option<Cause> {
        let (message, asked) = (self.message, self.message.requested_bytes);
        let what = match (message.limit_bytes, message.free_bytes) {
            (Some(limit), _) if limit < asked => format!("the device has {} in total", Bytes(limit)),
            (_, Some(free)) if free < asked => format!("{} is free", Bytes(free)),
            _ => return None,
        };
        let parts = message.parts.iter().map(|part| format!("{} {}", Bytes(part.bytes), part.name));
        let parts: Vec<String> = parts.collect();
        let parts = match parts.is_empty() {
            true => String::new(),
            false => format!("; in use: {}", parts.join(", ")),
        };
        let finding = format!("{} was requested, and {what}{parts}", Bytes(asked));
        let bytes = message.allocated_bytes.unwrap_or(0);
        Some(Cause { kind: CauseKind::Full, bytes, finding, advice: Some(self.full_advice()), conf: None })
    }

    /// Returns whether the figures describe one pool that the program took from the device at the start.
    pub(super) fn is_of_pool(&self) -> bool {
        matches!(self.message.program, Program::Xla | Program::TensorFlow)
    }
}

/// Joins clauses with commas, and the last one with "and".
fn clauses(parts: &[String]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}

/// Returns whether the program would have failed a little later without a cause, as for a cause in a file. The number
/// of such requests that the free memory would have satisfied is at most its bytes divided by theirs.
fn is_minor(report: &OomReport, cause: &Cause) -> bool {
    let could_hold = report.could_hold_bytes();
    let n_requests = cause.bytes / report.requested_bytes.max(1);
    match cause.kind {
        CauseKind::Unusable(_) if cause.bytes < could_hold / UNUSABLE => {
            cause.bytes < could_hold / MINOR || n_requests < u64::from(MANY_REQUESTS)
        }
        _ => cause.bytes < could_hold / MINOR,
    }
}
