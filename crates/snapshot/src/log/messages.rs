//! Collects the messages of a log: how many, the first and the last, and the last of each rank.

use super::message::{Message, Program};

/// The most ranks that are kept apart.
const MAX_RANKS: usize = 1024;

/// The messages of one rank, device and program.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OfRank {
    /// The number of messages, not counting those that repeat the previous one.
    pub n_messages: u64,
    /// The line of the first.
    pub first_line: u64,
    /// The last.
    pub last: Message,
}

/// The failed requests in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Messages {
    /// The lines of the log.
    pub n_lines: u64,
    /// The lines of which only the first MiB was read.
    pub n_long_lines: u64,
    /// The number of messages.
    pub n_messages: u64,
    /// How many of them have the figures of the previous one by the same rank: the same failure, printed again.
    pub n_repeated: u64,
    /// The first message.
    pub first: Option<Message>,
    /// The last that does not repeat one before.
    pub last: Option<Message>,
    /// The messages of each rank, device and program, by first appearance; at most 1024.
    pub ranks: Vec<OfRank>,
    /// The failures without figures, such as `CUDA error: out of memory`.
    pub n_without_figures: u64,
    /// The line of the first of these.
    pub without_figures_line: Option<u64>,
}

impl Messages {
    pub(super) fn add(&mut self, message: Message) {
        let known = self.ranks.iter().position(|known| is_of(&known.last, &message));
        if known.is_some_and(|at| is_second_line(&self.ranks[at].last, &message)) {
            return;
        }
        self.n_messages += 1;
        match known {
            Some(at) if message.repeats(&self.ranks[at].last) => {
                self.n_repeated += 1;
                return;
            }
            Some(at) => {
                self.ranks[at].n_messages += 1;
                self.ranks[at].last.clone_from(&message);
            }
            None if self.ranks.len() < MAX_RANKS => {
                self.ranks.push(OfRank { n_messages: 1, first_line: message.line, last: message.clone() });
            }
            None => {}
        }
        if self.first.is_none() {
            self.first = Some(message.clone());
        }
        self.last = Some(message);
    }

    pub(super) fn add_without_figures(&mut self, line: u64) {
        self.n_without_figures += 1;
        self.without_figures_line.get_or_insert(line);
    }

    /// Returns the last message about a device.
    #[must_use]
    pub fn of_device(&self, device: i64) -> Option<&Message> {
        let is_of = |rank: &&OfRank| rank.last.device.is_some_and(|number| i64::from(number) == device);
        let of_device = self.ranks.iter().filter(is_of);
        of_device.map(|rank| &rank.last).max_by_key(|message| message.line)
    }
}

fn is_of(known: &Message, message: &Message) -> bool {
    (known.program, known.device, &known.rank) == (message.program, message.device, &message.rank)
}

/// Returns whether a message is the second line of the previous one: ggml prints the exact size there.
fn is_second_line(known: &Message, message: &Message) -> bool {
    message.program == Program::Ggml
        && message.line <= known.line + 2
        && message.requested_bytes.abs_diff(known.requested_bytes) <= 1 << 20
}
