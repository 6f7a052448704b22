//! What many events share (stream, pool, scope), as one number of four bytes.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::ScopeId;
use crate::event::{PoolId, StreamId};

/// Where an event happened, apart from its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct EventContext {
    pub(crate) stream: StreamId,
    pub(crate) pool: PoolId,
    pub(crate) scope: ScopeId,
}

/// The number of a context in its recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ContextId(pub(crate) u32);

/// Every context seen; 0 is the default stream and pool outside any scope.
///
/// It is bounded, because scopes can be named without end: beyond
/// [`Contexts::LIMIT`] an event is counted as lost rather than misplaced.
#[derive(Debug)]
pub(super) struct Contexts(IndexSet<EventContext, FxBuildHasher>);

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts(std::iter::once(EventContext::default()).collect())
    }
}

impl Contexts {
    const LIMIT: usize = 1 << 20;

    pub(super) fn number(&mut self, context: EventContext) -> Option<ContextId> {
        let index = match self.0.get_index_of(&context) {
            Some(index) => index,
            None if self.0.len() < Self::LIMIT => self.0.insert_full(context).0,
            None => return None,
        };
        u32::try_from(index).ok().map(ContextId)
    }

    pub(super) fn all(&self) -> Vec<EventContext> {
        self.0.iter().copied().collect()
    }
}

/// The contexts that a thread used last, so that it rarely asks for the table.
#[derive(Debug, Default)]
pub(super) struct Recent {
    latest: (EventContext, ContextId),
    others: [(EventContext, ContextId); 8],
}

impl Recent {
    /// Of the one used last.
    #[inline(always)]
    pub(super) fn latest(&self, context: EventContext) -> Option<ContextId> {
        let (known, id) = self.latest;
        (known == context).then_some(id)
    }

    pub(super) fn get(&mut self, context: EventContext) -> Option<ContextId> {
        let (known, id) = self.others[Self::place(context)];
        (known == context).then(|| {
            self.latest = (known, id);
            id
        })
    }

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
        // The golden ratio spreads what stands in the low bits and in a pointer's middle ones.
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
    fn a_full_table_refuses_only_what_is_new() {
        let mut contexts = Contexts::default();
        for stream in 0..Contexts::LIMIT as u64 {
            assert_eq!(contexts.number(on(stream)).unwrap().0 as u64, stream);
        }
        assert_eq!(contexts.number(on(u64::MAX)), None);
        assert_eq!(contexts.number(on(77)), Some(ContextId(77)));
    }

    #[test]
    fn recent_ones_are_told_apart() {
        let mut recent = Recent::default();
        assert_eq!(recent.get(EventContext::default()), Some(ContextId(0)));
        for stream in 1..1000 {
            assert_eq!(recent.get(on(stream)), None);
            recent.keep(on(stream), ContextId(stream as u32));
            assert_eq!(recent.get(on(stream)), Some(ContextId(stream as u32)));
        }
    }
}
