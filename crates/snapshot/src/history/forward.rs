//! The forward walk: determines what each entry of a trace does to the block at its address.
//!
//! ```text
//!   unknown ──alloc──▶ live ──free_requested──▶ pending ──free_completed──▶ free ──alloc──▶ live
//!   unknown ──free_requested──▶ pending         unknown ──free_completed──▶ free
//! ```
//!
//! Every other transition contradicts the entries before it. The walk reports it as a
//! [`Contradiction`] and the caller decides what follows: `analysis` counts it, `validate` reports it,
//! `whatif` refuses the trace.
//!
//! A walk takes entries one by one, so that it works on a slice and on a
//! [`SnapshotSource`](crate::model::SnapshotSource) alike:
//!
//! ```text
//! let mut walk = Forward::default();
//! source.for_each_entry(device, &mut |entry| match walk.step(entry) {
//!     Step::Begin { life, displaced } => …,
//!     Step::Request { life, is_prior, .. } => …,
//!     Step::End { life, was_requested, .. } => …,
//!     Step::Contradiction(kind) => …,
//!     Step::Other => …,
//! });
//! ```
//!
//! Lives are numbered from 0 in the order in which they begin, so that a caller that keeps
//! something for each life keeps it in a `Vec`. The walk compares addresses only. Whether blocks
//! overlap is a question for [`Live::overlapping`](super::Live::overlapping).

use crate::{
    model::TraceEntry,
    words::{Action, Address, BlockState, SeededMap},
};

/// The number of a life, in the order in which lives begin.
pub(crate) type LifeIndex = u32;

/// The state of an address after its latest entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A block is allocated.
    Live,
    /// The free of its block is requested and not completed.
    Pending,
    /// Its latest block is free.
    Free,
}

impl State {
    /// The state of the block at the address; `None` if it is free.
    pub fn as_block(self) -> Option<BlockState> {
        match self {
            State::Live => Some(BlockState::ActiveAllocated),
            State::Pending => Some(BlockState::ActivePendingFree),
            State::Free => None,
        }
    }
}

/// An address with its latest life.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    pub state: State,
    pub life: LifeIndex,
    /// The size in the entry that began the life, in bytes.
    pub began_bytes: u64,
}

/// An alloc at an address whose block was not free: an entry between the two is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Displaced {
    /// The life that ends without an entry of its own.
    pub life: LifeIndex,
    /// Whether its free was requested: then only the completion is missing, otherwise both.
    pub was_requested: bool,
}

/// An entry that contradicts earlier ones. It changes nothing in the walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// `free_requested` of a block whose free is requested already. A completion and an alloc are
    /// missing between the two, or the entry is there twice.
    RequestOfPending,
    /// `free_requested` of a block that is free: its alloc is missing.
    RequestOfFree,
    /// `free_completed` of a block that is free: its alloc and its request are missing, or the
    /// entry is there twice.
    CompletionOfFree,
}

/// The effect of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// `alloc`: a life begins.
    Begin {
        /// The number of the life.
        life: LifeIndex,
        /// The life that held the address until now, contrary to the trace.
        displaced: Option<Displaced>,
    },
    /// `free_requested`: the program gives a block back.
    Request {
        /// The number of the life.
        life: LifeIndex,
        /// The size that the life began with, in bytes; another size in the entry is a contradiction
        /// that some callers tolerate.
        began_bytes: u64,
        /// The life began before the trace, and this entry is its first.
        is_prior: bool,
    },
    /// `free_completed`: a block is free.
    End {
        /// The number of the life.
        life: LifeIndex,
        /// As in [`Step::Request`].
        began_bytes: u64,
        /// The life began before the trace, and this entry is its first.
        is_prior: bool,
        /// Whether an entry requested the free. Without one the request is missing, or came before the
        /// trace where `is_prior` is set.
        was_requested: bool,
    },
    /// The entry cannot follow the entries before it.
    Contradiction(Contradiction),
    /// The entry is not an event of a block's life.
    Other,
}

impl Step {
    /// Whether the entry cannot follow the entries before it.
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Step::Contradiction(_) | Step::Begin { displaced: Some(_), .. })
    }
}

/// A forward walk over the entries of one device.
#[derive(Debug, Default)]
pub struct Forward {
    spots: SeededMap<Address, Spot>,
    n_lives: LifeIndex,
}

impl Forward {
    /// Takes the next entry.
    #[inline]
    pub fn step(&mut self, entry: &TraceEntry) -> Step {
        match entry.action {
            Some(Action::Alloc) => self.alloc(entry),
            Some(Action::FreeRequested) => self.request(entry),
            Some(Action::FreeCompleted) => self.complete(entry),
            _ => Step::Other,
        }
    }

    /// Returns the state of an address; `None` if no entry had it.
    #[inline]
    pub fn spot(&self, address: Address) -> Option<Spot> {
        self.spots.get(&address).copied()
    }

    /// Every address that an entry had, in no order.
    pub fn spots(&self) -> impl Iterator<Item = (Address, Spot)> {
        self.spots.iter().map(|(address, spot)| (*address, *spot))
    }

    /// Ends the life at an address without an entry, for a caller that completes the trace.
    pub fn close(&mut self, address: Address) {
        if let Some(spot) = self.spots.get_mut(&address) {
            spot.state = State::Free;
        }
    }

    /// Begins a life whose alloc is missing, in a state: for a caller that believes an entry which
    /// was a [`Contradiction`], or a block of the final state.
    pub fn begin(&mut self, address: Address, began_bytes: u64, state: State) -> LifeIndex {
        let life = self.n_lives;
        // A trace has fewer than 2^32 entries (see `Moment`), and an entry begins at most one life.
        self.n_lives = self.n_lives.saturating_add(1);
        self.spots.insert(address, Spot { state, life, began_bytes });
        life
    }

    /// Begins the life that a [`Contradiction::RequestOfFree`] shows, for a caller that believes the entry.
    pub fn begin_requested(&mut self, entry: &TraceEntry) -> LifeIndex {
        self.begin(entry.address, entry.size, State::Pending)
    }

    #[inline]
    fn alloc(&mut self, entry: &TraceEntry) -> Step {
        let life = self.n_lives;
        self.n_lives = self.n_lives.saturating_add(1);
        let spot = Spot { state: State::Live, life, began_bytes: entry.size };
        let before = self.spots.insert(entry.address, spot);
        let displaced = before.filter(|before| before.state != State::Free);
        let displaced = displaced
            .map(|before| Displaced { life: before.life, was_requested: before.state == State::Pending });
        Step::Begin { life, displaced }
    }

    #[inline]
    fn request(&mut self, entry: &TraceEntry) -> Step {
        match self.spots.get_mut(&entry.address) {
            Some(spot) => match spot.state {
                State::Live => {
                    spot.state = State::Pending;
                    Step::Request { life: spot.life, began_bytes: spot.began_bytes, is_prior: false }
                }
                State::Pending => Step::Contradiction(Contradiction::RequestOfPending),
                State::Free => Step::Contradiction(Contradiction::RequestOfFree),
            },
            None => {
                let life = self.begin_requested(entry);
                Step::Request { life, began_bytes: entry.size, is_prior: true }
            }
        }
    }

    #[inline]
    fn complete(&mut self, entry: &TraceEntry) -> Step {
        match self.spots.get_mut(&entry.address) {
            Some(spot) if spot.state == State::Free => Step::Contradiction(Contradiction::CompletionOfFree),
            Some(spot) => {
                let was_requested = spot.state == State::Pending;
                spot.state = State::Free;
                let (life, began_bytes) = (spot.life, spot.began_bytes);
                Step::End { life, began_bytes, is_prior: false, was_requested }
            }
            None => {
                let life = self.begin(entry.address, entry.size, State::Free);
                Step::End { life, began_bytes: entry.size, is_prior: true, was_requested: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: Action, size: u64) -> TraceEntry {
        TraceEntry { action: Some(action), address: Address(0x1000), size, ..TraceEntry::default() }
    }

    fn steps(actions: &[(Action, u64)]) -> Vec<Step> {
        let mut walk = Forward::default();
        actions.iter().map(|(action, size)| walk.step(&entry(*action, *size))).collect()
    }

    #[test]
    fn a_life_is_begun_requested_and_ended() {
        let all = steps(&[(Action::Alloc, 5), (Action::FreeRequested, 6), (Action::FreeCompleted, 5)]);
        assert_eq!(all[0], Step::Begin { life: 0, displaced: None });
        assert_eq!(all[1], Step::Request { life: 0, began_bytes: 5, is_prior: false });
        let end = Step::End { life: 0, began_bytes: 5, is_prior: false, was_requested: true };
        assert_eq!(all[2], end);
    }

    #[test]
    fn a_first_free_is_of_a_block_from_before() {
        let all = steps(&[(Action::FreeRequested, 7), (Action::Alloc, 1)]);
        assert_eq!(all[0], Step::Request { life: 0, began_bytes: 7, is_prior: true });
        assert_eq!(
            all[1],
            Step::Begin { life: 1, displaced: Some(Displaced { life: 0, was_requested: true }) }
        );
        let all = steps(&[(Action::FreeCompleted, 7)]);
        assert_eq!(all[0], Step::End { life: 0, began_bytes: 7, is_prior: true, was_requested: false });
    }

    #[test]
    fn what_cannot_follow_is_a_contradiction() {
        let [alloc, request, complete] = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted];
        let last = |actions: &[Action]| {
            let all: Vec<_> = actions.iter().map(|action| (*action, 5)).collect();
            *steps(&all).last().unwrap()
        };
        let kind = |actions: &[Action]| match last(actions) {
            Step::Contradiction(kind) => Some(kind),
            _ => None,
        };
        assert_eq!(kind(&[request, request]), Some(Contradiction::RequestOfPending));
        assert_eq!(kind(&[complete, request]), Some(Contradiction::RequestOfFree));
        assert_eq!(kind(&[complete, complete]), Some(Contradiction::CompletionOfFree));
        let displaced = |step| match step {
            Step::Begin { displaced, .. } => displaced.map(|displaced| displaced.was_requested),
            _ => None,
        };
        assert_eq!(displaced(last(&[alloc, alloc])), Some(false));
        assert_eq!(displaced(last(&[alloc, complete, alloc])), None);
        assert!(last(&[alloc, alloc]).is_contradiction() && last(&[request, request]).is_contradiction());
        assert!(!last(&[alloc, complete, alloc]).is_contradiction());
        assert_eq!(last(&[alloc, Action::Snapshot]), Step::Other);
    }

    #[test]
    fn a_caller_can_end_and_begin_lives() {
        let mut walk = Forward::default();
        walk.step(&entry(Action::Alloc, 5));
        walk.close(Address(0x1000));
        assert_eq!(walk.step(&entry(Action::Alloc, 5)), Step::Begin { life: 1, displaced: None });
        assert_eq!(walk.begin(Address(0x1000), 9, State::Pending), 2);
        assert_eq!(
            walk.spot(Address(0x1000)).map(|spot| (spot.state, spot.began_bytes)),
            Some((State::Pending, 9))
        );
        assert_eq!((walk.n_lives, walk.spots.len()), (3, 1));
    }
}
