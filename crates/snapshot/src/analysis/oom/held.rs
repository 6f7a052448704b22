//! The memory in use as the cause of a failed request: what it is, and what less of it would free.

use super::{
    cause::{Cause, CauseKind},
    explanation::Explanation,
    states::StatesToCome,
};
use crate::{
    analysis::{Bytes, Call, Group, Made, Site, frames::IN_BACKWARD},
    history::Life,
    model::{Frame, StackIndex, StackTable},
    words::SeededMap,
};

/// A kind below this fraction of what is in use is not named: one in this number.
const LEAST: u64 = 4;

/// The memory of one kind, with the call that made most of it.
struct HeldKind<'a> {
    made: Made,
    bytes: u64,
    call: Option<(&'a Frame, u64)>,
}

impl Explanation<'_, '_> {
    /// Returns the size of what is in use as the cause. What takes less memory is advised first, and a setting last.
    /// `is_setting_said` is whether a minor cause already advises it.
    pub(super) fn full(&self, is_setting_said: bool) -> Cause {
        let report = &self.report;
        let more = match report.requested_bytes.saturating_sub(report.all_free_bytes()) {
            0 => String::new(),
            more => format!(", {} more than is free", Bytes(more)),
        };
        let bytes = report.totals.active_bytes;
        let finding = format!(
            "{} is in use and {} was requested{}{}{more}{}{}",
            Bytes(bytes),
            Bytes(report.requested_bytes),
            self.first_step_words(),
            if self.is_largest_request() { ", the largest request of the history" } else { "" },
            self.held_words(),
            self.states_to_come().map_or_else(String::new, StatesToCome::words),
        );
        let (advice, conf) = self.full_advice(is_setting_said);
        Cause { kind: CauseKind::Full, bytes, finding, advice, conf }
    }

    /// Returns what to do about it, and the setting. Without rounding, or in other pieces, the same blocks may fit, but
    /// a setting is the answer only if the rest of the history succeeds with it too.
    fn full_advice(&self, is_setting_said: bool) -> (Option<String>, Option<String>) {
        let setting = self.tried.best().and_then(|best| Some((best, self.setting_advice()?)));
        if let Some((best, advice)) = &setting
            && best.serves_the_rest()
        {
            return (Some(advice.clone()), Some(best.conf.clone()));
        }
        let delay =
            setting.filter(|_| !is_setting_said).map(|(_, advice)| format!("only a stopgap: {advice}"));
        let advice: Vec<String> = self.less_advice().into_iter().chain(delay).collect();
        ((!advice.is_empty()).then(|| advice.join("; ")), None)
    }

    /// Returns what is in use, by kind and by the call that created most of it, as the end of a sentence.
    fn held_words(&self) -> String {
        if let Some(held) = self.largest_kind() {
            let call = held.call.map_or_else(String::new, |(frame, bytes)| match bytes == held.bytes {
                true => format!(", allocated by {}", Call(frame)),
                false => format!(", {} of them allocated by {}", Bytes(bytes), Call(frame)),
            });
            let pass = if held.made == Made::Activations { " pass" } else { "" };
            return format!("; {} of the memory in use is {}{pass}{call}", Bytes(held.bytes), held.made);
        }
        let words = |group: &Group| format!("; {} of it by {}", Bytes(group.bytes), self.site(&group.site));
        self.live.first().map_or_else(String::new, words)
    }

    /// Returns when a full device failed, if that shows what is still to come: in the first step, or before the first
    /// step of the optimizer.
    fn first_step_words(&self) -> &'static str {
        let is_first = self.steps.first().is_some_and(|step| self.report.entry < step.entries.end);
        let has_states = || self.live.iter().any(|group| self.made(group) == Some(Made::OptimizerStates));
        // What the file lacks may be the states.
        let is_whole = || self.history.trust().is_whole();
        let is_training = || self.live.iter().any(|group| self.made(group) == Some(Made::Gradients));
        match is_first {
            true => " in the first step",
            false if self.steps.is_empty() && is_whole() && is_training() && !has_states() => {
                " before the first step of the optimizer"
            }
            false => "",
        }
    }

    /// Returns what reducing the largest kind would free, in one sentence with the bytes that the history shows; `None`
    /// if it is not known what holds the memory.
    fn less_advice(&self) -> Option<String> {
        let most = self.report.could_hold_at_most_bytes();
        if self.report.requested_bytes > most {
            return Some(format!(
                "the request alone exceeds the {} that the process could hold: allocate less at once",
                Bytes(most)
            ));
        }
        let held = self.largest_kind()?;
        let half = Bytes(held.bytes / 2);
        let text = match held.made {
            Made::Activations => {
                let checkpoint = self.best_checkpoint().map_or_else(String::new, |of| {
                    let condition = if self.has_backward() { "" } else { ", if this is a training run," };
                    format!(
                        ", and{condition} a checkpoint around each call at {} would save {} of them",
                        Call(of.frame),
                        Bytes(of.bytes)
                    )
                });
                format!("halving the batch size would save about {half} of activations{checkpoint}")
            }
            Made::Gradients => format!(
                "the gradients would take {half} less with half the trainable parameters on this device (sharded over two, or frozen), \
                 or in half precision"
            ),
            Made::OptimizerStates => format!(
                "the states would take {half} less sharded over two devices, or in half precision, and {} less in 8 bits",
                Bytes(held.bytes / 4 * 3),
            ),
            Made::Weights => {
                format!("the weights would take {half} less sharded over two devices, or in half precision")
            }
            Made::Graph => return None,
        };
        let to_come = self.states_to_come().map_or(0, |states| states.bytes);
        let asked_bytes = self.report.requested_bytes.max(to_come);
        let who =
            if to_come > self.report.requested_bytes { "the states to come are" } else { "this request is" };
        let missing_bytes = asked_bytes.saturating_sub(self.report.all_free_bytes());
        Some(match missing_bytes {
            0 => text,
            missing if missing > held.bytes / 2 => {
                format!("{text}; {who} {} short, so half is not enough", Bytes(missing))
            }
            missing if held.made == Made::Activations && !self.has_backward() => format!(
                "{text}; {who} {} short, and what the rest of the pass needs is not in the history",
                Bytes(missing)
            ),
            missing => format!("{text}; {who} {} short", Bytes(missing)),
        })
    }

    /// Returns whether no earlier request of the history was as large as the one that failed.
    fn is_largest_request(&self) -> bool {
        let report = &self.report;
        let allocs = |life: &Life| life.from.entry().is_some_and(|entry| entry < report.entry);
        let earlier = self.history.lives().iter().filter(|life| allocs(life));
        let most_bytes = earlier.map(|life| life.requested_bytes).max().unwrap_or(0);
        most_bytes > 0 && report.requested_bytes > most_bytes
    }

    fn made(&self, group: &Group) -> Option<Made> {
        self.made_by(if let Site::Stack(stack) = group.site { Some(stack) } else { None })
    }

    /// Returns what the call of a stack creates; gradients for blocks without a stack in a history of a backward pass.
    pub(super) fn made_by(&self, stack: Option<StackIndex>) -> Option<Made> {
        match stack.filter(|stack| *stack != StackTable::EMPTY) {
            Some(stack) => Made::of(&self.shown, stack),
            None => (self.shown.no_stack() == IN_BACKWARD).then_some(Made::Gradients),
        }
    }

    fn largest_kind(&self) -> Option<HeldKind<'_>> {
        let mut kinds: SeededMap<Made, u64> = SeededMap::default();
        for group in &self.live {
            if let Some(made) = self.made(group) {
                let bytes = kinds.entry(made).or_default();
                *bytes = bytes.saturating_add(group.bytes);
            }
        }
        let (made, bytes) = kinds.into_iter().max_by_key(|(made, bytes)| (*bytes, *made))?;
        let is_most = bytes >= self.report.totals.active_bytes / LEAST;
        is_most.then(|| HeldKind { made, bytes, call: self.largest_call(made) })
    }

    /// Returns the call of the program's own that made most of a kind.
    fn largest_call(&self, made: Made) -> Option<(&Frame, u64)> {
        let mut calls: SeededMap<(&str, &str, u64), (&Frame, u64)> = SeededMap::default();
        for group in self.live.iter().filter(|group| self.made(group) == Some(made)) {
            let Site::Stack(stack) = group.site else { continue };
            let Some(frame) = self.shown.own(stack).or_else(|| self.shown.innermost(stack)) else { continue };
            let (_, bytes) = calls.entry((&frame.name, &frame.filename, frame.line)).or_insert((frame, 0));
            *bytes = bytes.saturating_add(group.bytes);
        }
        let name = |frame: &'_ Frame| (frame.name.clone(), frame.line);
        calls
            .into_values()
            .max_by(|one, other| one.1.cmp(&other.1).then_with(|| name(other.0).cmp(&name(one.0))))
    }
}
