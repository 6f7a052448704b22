//! The stream, pool and scope that many events share, as a four-byte number.
#![forbid(unsafe_code)]

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::scope_names::ScopeId;
use crate::tape::{Note, TapeFile};
use memreel_snapshot::words::{PoolId, StreamId};

/// The stream, pool and scope of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct EventContext {
    pub(crate) stream: StreamId,
    pub(crate) pool: PoolId,
    pub(crate) scope: ScopeId,
}

/// The number of a context in its recorder's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ContextId(pub(crate) u32);

/// A recorder's table of contexts; number 0 is the default stream and pool outside any scope.
///
/// The table is bounded, because scope names are not. When it is full, an event with a new context is counted
/// as lost rather than recorded with a wrong context.
#[derive(Debug)]
pub(super) struct Contexts {
    all: IndexSet<EventContext, FxBuildHasher>,
    file: Option<Arc<TapeFile>>,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts { all: std::iter::once(EventContext::default()).collect(), file: None }
    }
}

impl Contexts {
    const LIMIT: usize = 1 << 20;

    /// Returns the number of a context, adding it to the table if it is new; `None` if the table is full.
    pub(super) fn number(&mut self, context: EventContext) -> Option<ContextId> {
        let index = match self.all.get_index_of(&context) {
            Some(index) => index,
            None if self.all.len() < Self::LIMIT => self.add(context),
            None => return None,
        };
        u32::try_from(index).ok().map(ContextId)
    }

    fn add(&mut self, context: EventContext) -> usize {
        let index = self.all.insert_full(context).0;
        if let Some(file) = &self.file {
            file.note(&note(index, context));
        }
        index
    }

    /// Writes contexts into a file from now on, starting with the existing ones.
    pub(super) fn set_file(&mut self, file: Option<Arc<TapeFile>>) {
        for (file, (index, context)) in
            file.iter().flat_map(|file| std::iter::repeat(file).zip(self.all.iter().enumerate()))
        {
            file.note(&note(index, *context));
        }
        self.file = file;
    }

    /// Returns all contexts by number.
    pub(super) fn all(&self) -> Vec<EventContext> {
        self.all.iter().copied().collect()
    }
}

fn note(index: usize, EventContext { stream, pool, scope }: EventContext) -> Note {
    let number = u32::try_from(index).unwrap_or_default();
    Note::Context { number, stream: stream.0, graph: pool.graph, user: pool.user, scope: scope.0 }
}

/// The contexts that a thread used last, so that it rarely needs the recorder's table.
#[derive(Debug, Default)]
pub(super) struct Recent {
    latest: (EventContext, ContextId),
    others: [(EventContext, ContextId); 8],
}

impl Recent {
    /// Returns the number of a context if it is the last one used.
    #[inline(always)]
    pub(super) fn latest(&self, context: EventContext) -> Option<ContextId> {
        let (known, id) = self.latest;
        (known == context).then_some(id)
    }

    /// Returns the number of a context if it is one of those used recently, and marks it as the last one used.
    pub(super) fn get(&mut self, context: EventContext) -> Option<ContextId> {
        let (known, id) = self.others[Self::place(context)];
        (known == context).then(|| {
            self.latest = (known, id);
            id
        })
    }

    /// Adds a context as the last one used.
    pub(super) fn keep(&mut self, context: EventContext, id: ContextId) {
        self.latest = (context, id);
        self.others[Self::place(context)] = (context, id);
    }

    #[inline]
    fn place(context: EventContext) -> usize {
        let PoolId { graph, user } = context.pool;
        let mixed = context.stream.handle()
            ^ graph.rotate_left(20)
            ^ user.rotate_left(40)
            ^ u64::from(context.scope.0);
        // Multiplying by the golden ratio moves the low bits of numbers and the middle bits of pointers
        // into the three high bits.
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(stream: u64) -> EventContext {
        EventContext { stream: StreamId::from_handle(stream), ..EventContext::default() }
    }

    #[test]
    fn a_full_table_refuses_new_contexts_only() {
        let mut contexts = Contexts::default();
        for stream in 0..Contexts::LIMIT as u64 {
            assert_eq!(contexts.number(on(stream)).unwrap().0 as u64, stream);
        }
        assert_eq!(contexts.number(on(u64::MAX)), None);
        assert_eq!(contexts.number(on(77)), Some(ContextId(77)));
    }

    #[test]
    fn recent_contexts_are_not_confused() {
        let mut recent = Recent::default();
        assert_eq!(recent.get(EventContext::default()), Some(ContextId(0)));
        for stream in 1..1000 {
            assert_eq!(recent.get(on(stream)), None);
            recent.keep(on(stream), ContextId(stream as u32));
            assert_eq!(recent.get(on(stream)), Some(ContextId(stream as u32)));
        }
    }
}
