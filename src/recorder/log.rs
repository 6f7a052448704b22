//! Encodes events in four words, and decodes those of a tape at one time, in order.
#![forbid(unsafe_code)]

use super::{
    clock::{Scale, Ticks},
    context::{ContextId, EventContext},
    lines::Lines,
    scope_names::ScopeId,
    tally::Tally,
};
use memreel_lockfree::events::{self, ACTION_BITS, Words, in_chunks, ticks_of};
use memreel_snapshot::words::{Action, Address, Event, PoolId, StackId};

/// An event with the time and the scope that the recorder added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) time_us: u64,
    pub(crate) scope: ScopeId,
    /// The number of its stream, pool and scope.
    pub(crate) context: ContextId,
}

/// The chunks of a tape, with their lengths at the time of the cut.
pub(crate) type Cut = events::Cut<Lines>;

/// Encodes an event: address; ticks and action (the order word); stack and context; size.
#[inline]
pub(super) fn words(event: &Event, at: Ticks, context: ContextId) -> Words {
    [
        event.address.0,
        (at.0 << ACTION_BITS) | event.action as u64,
        u64::from(event.stack.0) | (u64::from(context.0) << 32),
        event.size_bytes,
    ]
}

/// Returns an event without the numbers that its tables lack: the wrong numbers of a damaged file would cost memory.
pub(crate) fn known(mut words: Words, n_contexts: usize, n_stacks: usize) -> Words {
    if stack_of(&words).0 as usize >= n_stacks {
        words[2] |= u64::from(StackId::NONE.0);
    }
    if context_of(&words).0 as usize >= n_contexts {
        words[2] &= u64::from(u32::MAX);
    }
    words
}

/// The number of recorded events and of lost ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) n_kept: usize,
    pub(crate) n_lost: u64,
}

/// The memory that an event is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSpan {
    pub(crate) action: Action,
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    pub(crate) stack: StackId,
}

/// The events of a tape at one time, oldest first.
#[derive(Debug)]
pub(crate) struct Log(events::Events<Lines>);

/// The tables that decode a log's numbers: contexts, and the scale of ticks.
#[derive(Clone, Debug)]
pub(crate) struct LogTables {
    pub(crate) contexts: Vec<EventContext>,
    pub(crate) scale: Scale,
}

impl LogTables {
    pub(crate) fn n_contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Returns the pool and the scope of a context.
    pub(crate) fn place(&self, context: ContextId) -> (PoolId, ScopeId) {
        let EventContext { pool, scope, .. } = self.context(context);
        (pool, scope)
    }

    /// Returns the parts of a context. A context that is not in the table was added after the table was
    /// copied, so no event of the cut has it.
    #[inline(always)]
    fn context(&self, context: ContextId) -> EventContext {
        self.contexts.get(context.0 as usize).copied().unwrap_or_default()
    }
}

impl Log {
    /// Returns the events of a cut.
    pub(crate) fn of(cut: Cut) -> Log {
        Log(cut.read())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns how many events are missing before the first.
    pub(crate) fn n_lost(&self) -> u64 {
        self.0.n_lost
    }

    /// Returns how many events there are.
    pub(crate) fn count(&self) -> Count {
        Count { n_kept: self.len(), n_lost: self.n_lost() }
    }

    /// Adds the counts of its events to `tally`, without decoding them to entries.
    pub(crate) fn count_into(&self, tally: &mut Tally) {
        self.0.iter().for_each(|words| {
            let (action, stack, context) = (action_of(&words), stack_of(&words), context_of(&words));
            tally.add(action, stack, context);
        });
    }

    /// Puts events before the others, with the time of the first.
    pub(crate) fn begin_with(&mut self, events: &[Event]) {
        let Some(first) = self.0.iter().next() else { return };
        let at = ticks_of(first[1]);
        self.0.begin_with(events.iter().map(|event| words(event, at, ContextId::default())));
    }

    /// Returns the memory that each event is about, oldest first.
    pub(crate) fn spans(&self) -> impl Iterator<Item = LogSpan> {
        self.0.iter().map(|words| LogSpan {
            action: action_of(&words),
            address: Address(words[0]),
            bytes: words[3],
            stack: stack_of(&words),
        })
    }

    /// Returns a cut of some of the events, by their numbers, with as many lost ones.
    pub(crate) fn some(&self, is_wanted: impl Fn(usize) -> bool) -> Cut {
        let all = self.0.iter().enumerate();
        let wanted = all.filter(|(number, _)| is_wanted(*number)).map(|(_, words)| words);
        let chunks: Vec<_> = in_chunks(wanted).map(|(_, chunk)| chunk).collect();
        Cut { n_dropped: self.n_lost(), ..Cut::whole(&chunks, 0) }
    }

    /// Decodes the events, oldest first.
    pub(crate) fn entries(&self, tables: &LogTables) -> impl Iterator<Item = Entry> {
        self.0.iter().map(|words| entry(&words, tables))
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // The low half is the stack.
fn stack_of(words: &Words) -> StackId {
    StackId(words[2] as u32)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // The action has four bits.
fn action_of(words: &Words) -> Action {
    Action::ALL[words[1] as usize % (1 << ACTION_BITS) % Action::ALL.len()]
}

#[inline(always)]
fn context_of(words: &Words) -> ContextId {
    ContextId((words[2] >> 32) as u32)
}

/// Decodes an event.
#[inline(always)]
pub(crate) fn entry(words: &Words, tables: &LogTables) -> Entry {
    let (action, context) = (action_of(words), context_of(words));
    let EventContext { stream, pool, scope } = tables.context(context);
    let event = Event {
        action,
        address: Address(words[0]),
        size_bytes: words[3],
        stream,
        pool,
        stack: stack_of(words),
    };
    Entry { event, time_us: tables.scale.micros(ticks_of(words[1])), scope, context }
}
