//! Events in columns: what can be guessed from the events before is a bit, and the rest are small numbers.
//!
//! A guess only saves bytes: the reader makes the same one from the events that it has read already.
#![forbid(unsafe_code)]

use super::numbers::{push, push_change, take, take_change};
use memreel_snapshot::words::Action;

/// The words of an event: address; ticks and action; stack and context; size.
pub(super) type Words = [u64; 4];

/// The number of columns.
pub(super) const N_COLUMNS: usize = 6;

/// The columns, by their number: a byte for each event, with its action and which guesses are right, and what is needed
/// where they are not.
const FLAGS: usize = 0;
const TICKS: usize = 1;
/// How many events back the last one with the same address is.
const PLACES: usize = 2;
const ADDRESSES: usize = 3;
const STACKS: usize = 4;
const SIZES: usize = 5;

/// The low bits of an order word, which are its action, and the flags above them.
const ACTION: u64 = 0xf;
const ACTION_BITS: u32 = 4;
const HAS_PLACE: u8 = 1 << 4;
const HAS_STACK: u8 = 1 << 5;
const HAS_SIZE: u8 = 1 << 6;

/// The number of guesses, and of places by address; powers of two.
const N_GUESSES: usize = 1 << 12;
const N_PLACES: usize = 1 << 17;

/// The columns of some slots' events.
pub(super) type Columns = [Vec<u8>; N_COLUMNS];

/// Writes events into columns.
pub(super) struct EventWriter {
    pub(super) columns: Columns,
    guess: Guess,
    events: Vec<Words>,
    /// By the address, the number of the last event that has it, and one more; 0 for none.
    places: Vec<u32>,
}

/// Reads events from columns.
pub(super) struct EventReader<'c> {
    columns: [&'c [u8]; N_COLUMNS],
    guess: Guess,
    events: Vec<Words>,
}

impl EventWriter {
    pub(super) fn new() -> EventWriter {
        let (columns, guess) = (Columns::default(), Guess::new());
        EventWriter { columns, guess, events: Vec::new(), places: vec![0; N_PLACES] }
    }

    /// Forgets all events, for the next slots.
    pub(super) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.guess.clear();
        self.events.clear();
        self.places.fill(0);
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // There are fewer than 2^32 events, and an action has four bits.
    pub(super) fn push(&mut self, words: Words) {
        let [address, order, stack, size] = words;
        let mut flags = (order & ACTION) as u8;
        let place = &mut self.places[bucket(address, N_PLACES)];
        let last = (*place as usize).checked_sub(1).map(|last| self.events[last]);
        let last = last.filter(|last| last[0] == address);
        if last.is_some() {
            flags |= HAS_PLACE;
            push(&mut self.columns[PLACES], (self.events.len() + 1 - *place as usize) as u64);
        } else {
            push_change(
                &mut self.columns[ADDRESSES],
                self.guess.address.rotate_right(4),
                address.rotate_right(4),
            );
        }
        *place = self.events.len() as u32 + 1;
        push_change(&mut self.columns[TICKS], self.guess.order >> ACTION_BITS, order >> ACTION_BITS);
        let guessed = self.guess.stack(order, last);
        if guessed == stack {
            flags |= HAS_STACK;
        } else {
            push_change(&mut self.columns[STACKS], guessed, stack);
        }
        let guessed = self.guess.size(order, last, stack);
        if guessed == size {
            flags |= HAS_SIZE;
        } else {
            push(&mut self.columns[SIZES], size);
        }
        self.columns[FLAGS].push(flags);
        self.guess.learn(words, last.is_some());
        self.events.push(words);
    }
}

impl<'c> EventReader<'c> {
    pub(super) fn new(columns: [&'c [u8]; N_COLUMNS]) -> EventReader<'c> {
        EventReader { columns, guess: Guess::new(), events: Vec::new() }
    }

    /// Reads the next event; `None` if the columns are damaged.
    #[inline]
    pub(super) fn read(&mut self) -> Option<Words> {
        let (flags, rest) = self.columns[FLAGS].split_first()?;
        self.columns[FLAGS] = rest;
        let last = match flags & HAS_PLACE {
            0 => None,
            _ => {
                let back = usize::try_from(take(&mut self.columns[PLACES])?).ok()?;
                Some(*self.events.get(self.events.len().checked_sub(back)?)?)
            }
        };
        let address = match last {
            Some(last) => last[0],
            None => {
                take_change(&mut self.columns[ADDRESSES], self.guess.address.rotate_right(4))?.rotate_left(4)
            }
        };
        let ticks = take_change(&mut self.columns[TICKS], self.guess.order >> ACTION_BITS)?;
        let order = ticks << ACTION_BITS | u64::from(*flags) & ACTION;
        let guessed = self.guess.stack(order, last);
        let stack = match flags & HAS_STACK {
            0 => take_change(&mut self.columns[STACKS], guessed)?,
            _ => guessed,
        };
        let size = match flags & HAS_SIZE {
            0 => take(&mut self.columns[SIZES])?,
            _ => self.guess.size(order, last, stack),
        };
        let words = [address, order, stack, size];
        self.guess.learn(words, last.is_some());
        self.events.push(words);
        Some(words)
    }
}

/// What is guessed of the next event.
struct Guess {
    address: u64,
    order: u64,
    /// The stack that the last allocation has, mixed with those before it.
    before: u64,
    /// By the stacks of the allocations before, the stack of the next one.
    stacks: Vec<u64>,
    /// By the stack, the size.
    sizes: Vec<u64>,
}

impl Guess {
    fn new() -> Guess {
        let (stacks, sizes) = (vec![0; N_GUESSES], vec![0; N_GUESSES]);
        Guess { address: 0, order: 0, before: 0, stacks, sizes }
    }

    fn clear(&mut self) {
        (self.address, self.order, self.before) = (0, 0, 0);
        self.stacks.fill(0);
        self.sizes.fill(0);
    }

    /// Guesses the stack: a free has that of the last event with its address.
    #[inline]
    fn stack(&self, order: u64, last: Option<Words>) -> u64 {
        match last {
            Some(last) if !is_alloc(order) => last[2],
            _ => self.stacks[bucket(self.before, N_GUESSES)],
        }
    }

    #[inline]
    fn size(&self, order: u64, last: Option<Words>, stack: u64) -> u64 {
        match last {
            Some(last) if !is_alloc(order) => last[3],
            _ => self.sizes[bucket(stack, N_GUESSES)],
        }
    }

    #[inline]
    fn learn(&mut self, [address, order, stack, size]: Words, has_place: bool) {
        if !has_place {
            self.address = address;
        }
        self.order = order;
        if is_alloc(order) {
            self.stacks[bucket(self.before, N_GUESSES)] = stack;
            self.sizes[bucket(stack, N_GUESSES)] = size;
            self.before = (self.before << 20) ^ stack;
        }
    }
}

#[inline]
fn is_alloc(order: u64) -> bool {
    order & ACTION == Action::Alloc as u64
}

/// Returns the place of a number in a table with `n` places, a power of two.
#[inline]
fn bucket(number: u64, n: usize) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - n.trailing_zeros())) as usize
}
