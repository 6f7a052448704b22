//! The newest events of one device, in chunks that threads fill alone.
//!
//! A thread owns one chunk of a tape at a time (`writer.rs`); what is locked
//! here is touched once in a thousand events. A full chunk joins the others,
//! and the oldest falls out once the ones behind it hold the capacity. So
//! memory is the capacity and two chunks a thread, whatever their number.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use super::{chunk::Chunk, clock::Ticks, guard::Guard, lock, log::Cut};
use crate::sync::{AtomicU64, Mutex, fence};

/// The word of an event that orders it: its ticks, and its action in the low bits.
pub(super) const ACTION_BITS: u32 = 4;

/// A device's tape.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Tape {
    /// Another one whenever everything is erased, and no two tapes' are equal:
    /// a writer whose chunk is of another life has the wrong one.
    life: AtomicU64,
    /// The last moment given out under the allocator's lock.
    last: AtomicU64,
    /// Events of signal handlers that interrupted one: they can take no lock.
    n_interrupted: AtomicU64,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    capacity: usize,
    /// In the order in which they were filled.
    full: VecDeque<Full>,
    /// A thread is writing in each.
    open: Vec<Arc<Chunk>>,
    /// Their threads ended before they were full; the next thread goes on.
    idle: Vec<Arc<Chunk>>,
    /// Up to here something fell out, so what is left is not read either:
    /// a history has no holes.
    horizon: u64,
    n_dropped: u64,
}

#[derive(Debug)]
struct Full {
    first: u64,
    last: u64,
    chunk: Arc<Chunk>,
}

/// A chunk to write in.
pub(super) struct Page {
    pub(super) life: u64,
    pub(super) chunk: Arc<Chunk>,
    /// Its last event so far.
    pub(super) last: Ticks,
}

/// The ordering word of an event in a chunk.
fn key_at(chunk: &Chunk, index: usize) -> u64 {
    chunk.read(index)[1]
}

fn new_life() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tape {
    pub(super) fn new(capacity: usize) -> Tape {
        let books = Books {
            capacity: capacity.max(1),
            full: VecDeque::new(),
            open: Vec::new(),
            idle: Vec::new(),
            horizon: 0,
            n_dropped: 0,
        };
        Tape {
            life: AtomicU64::new(new_life()),
            last: AtomicU64::new(0),
            n_interrupted: AtomicU64::new(0),
            books: Mutex::new(books),
        }
    }

    /// Which chunks are of this tape now.
    #[inline]
    pub(super) fn life(&self) -> u64 {
        self.life.load(Ordering::Relaxed)
    }

    /// A moment behind every one given out before under the caller's lock: the
    /// sequence number of a device's events. So this is no read-modify-write,
    /// whose price is half an event. Where two locks share a tape, an allocator's
    /// and a ledger's, theirs are as good as times are.
    #[inline]
    pub(super) fn next_moment(&self, now: Ticks) -> Ticks {
        let next = now.0.max(self.last.load(Ordering::Relaxed) + 1);
        self.last.store(next, Ordering::Relaxed);
        Ticks(next)
    }

    /// A chunk for a thread, which may give back a full one for it. None when
    /// recording is off: asked under the lock, because switching off stores the
    /// mode before it erases, and nothing may slip in behind the erasing.
    pub(super) fn next_page(&self, done: Option<&Arc<Chunk>>, is_on: impl Fn() -> bool) -> Option<Page> {
        let mut books = lock(&self.books);
        if !is_on() {
            return None;
        }
        if let Some(done) = done {
            books.close(done);
        }
        let spare = books.trim();
        let chunk = books.idle.pop().or(spare).unwrap_or_default();
        books.open.push(chunk.clone());
        let len = chunk.len();
        let last = if len == 0 { Ticks(0) } else { Ticks(key_at(&chunk, len - 1) >> ACTION_BITS) };
        Some(Page { life: self.life(), chunk, last })
    }

    /// A thread that ends leaves its chunk to the next.
    pub(super) fn hand_back(&self, chunk: &Arc<Chunk>) {
        let _guard = Guard::enter();
        lock(&self.books).close(chunk);
    }

    /// Counts an event that could not be kept.
    pub(super) fn count_lost(&self) {
        let _guard = Guard::enter();
        lock(&self.books).n_dropped += 1;
    }

    /// Counts an event that came in the middle of another on the same thread.
    #[cold]
    pub(super) fn count_interrupted(&self) {
        self.n_interrupted.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes how many events are kept, and forgets them all if asked to.
    pub(super) fn reset(&self, capacity: usize, erase: bool) {
        let _guard = Guard::enter();
        let mut books = lock(&self.books);
        if erase {
            *books = Books {
                capacity,
                full: VecDeque::new(),
                open: Vec::new(),
                idle: Vec::new(),
                horizon: 0,
                n_dropped: 0,
            };
            self.n_interrupted.store(0, Ordering::Relaxed);
            self.life.store(new_life(), Ordering::Relaxed);
        } else if books.capacity != capacity {
            // What the smaller of the two does not hold must not come back.
            let kept = books.cut(u64::MAX, books.capacity.min(capacity));
            books.horizon = kept.horizon_of_kept();
            books.capacity = capacity;
        }
    }

    /// Everything up to now: takes as long as a list of chunks is copied.
    ///
    /// Threads that record without a lock go on meanwhile. Of two events, one
    /// of which follows from the other, the later alone can never be in: it
    /// was written after the earlier was, so after this moment if the earlier
    /// was not seen.
    pub(super) fn cut(&self, now: Ticks) -> Cut {
        let _guard = Guard::enter();
        let books = lock(&self.books);
        let until = now.0.max(self.last.load(Ordering::Relaxed));
        fence(Ordering::SeqCst);
        let mut cut = books.cut((until << ACTION_BITS) | ((1 << ACTION_BITS) - 1), books.capacity);
        cut.n_dropped += self.n_interrupted.load(Ordering::Relaxed);
        cut
    }
}

impl Books {
    /// Takes a chunk from the thread that wrote in it. One of an earlier life
    /// is not among the open.
    fn close(&mut self, chunk: &Arc<Chunk>) {
        let Some(place) = self.open.iter().position(|open| Arc::ptr_eq(open, chunk)) else { return };
        let chunk = self.open.swap_remove(place);
        match chunk.len() {
            0 => {}
            Chunk::N_ENTRIES => {
                let (first, last) = (key_at(&chunk, 0), key_at(&chunk, Chunk::N_ENTRIES - 1));
                self.full.push_back(Full { first, last, chunk });
            }
            _ => self.idle.push(chunk),
        }
    }

    /// Drops the oldest chunks once those that begin behind them hold the
    /// capacity; gives one to be used again, unless a reader still holds it.
    fn trim(&mut self) -> Option<Arc<Chunk>> {
        let mut spare = None;
        while (self.full.len().saturating_sub(1)).saturating_mul(Chunk::N_ENTRIES) >= self.capacity {
            let last = self.full[0].last;
            let n_behind = self.full.iter().filter(|full| full.first > last).count();
            if n_behind.saturating_mul(Chunk::N_ENTRIES) < self.capacity {
                break;
            }
            let Some(Full { mut chunk, .. }) = self.full.pop_front() else { break };
            self.horizon = self.horizon.max(last);
            self.n_dropped += Chunk::N_ENTRIES as u64;
            if let Some(alone) = Arc::get_mut(&mut chunk) {
                alone.clear();
                spare = Some(chunk);
            }
        }
        spare
    }

    fn cut(&self, until: u64, capacity: usize) -> Cut {
        let full = self.full.iter().map(|full| &full.chunk);
        let all = full.chain(&self.idle).chain(&self.open);
        Cut {
            chunks: all.map(|chunk| (chunk.len(), chunk.clone())).collect(),
            after: self.horizon,
            until,
            capacity,
            n_dropped: self.n_dropped,
        }
    }
}
