//! What to record: PyTorch's options under PyTorch's names (snapshot-format.md 2.1, 2.2).

use std::{str::FromStr, sync::atomic::Ordering};

use crate::{
    error::{Error, Result},
    event::Action,
    sync::AtomicU32,
};

/// Whether events are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Enabled {
    /// Nothing is recorded, and what was recorded is erased.
    Off,
    /// Live blocks keep their stacks; of the events only the latest is kept.
    State,
    /// Every event is kept, up to `max_entries`.
    All,
}

/// For what stacks are captured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Context {
    /// For nothing.
    None,
    /// For live blocks and segments.
    State,
    /// Also for the events of allocations; a free shows the allocation's stack.
    Alloc,
    /// Also for frees.
    All,
}

/// Which frames a stack has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackKind {
    /// Those of the compiled program.
    Native,
    /// None, whatever the context says.
    None,
}

/// Where a stack may be captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CapturePoint {
    /// At the start of an allocation.
    Alloc,
    /// At the start of a free or of `empty_cache`.
    Free,
}

/// The options of recording. Defaults are PyTorch's, but for `max_entries`.
///
/// ```
/// use memreel::recorder::{Context, History};
///
/// let history = History::all().context(Context::Alloc).max_entries(10_000);
/// let the_same = History::all().context("alloc".parse()?).max_entries(10_000);
/// assert_eq!(history, the_same);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    enabled: Enabled,
    context: Context,
    stacks: StackKind,
    max_entries: usize,
    clear_history: bool,
    skip_actions: Vec<Action>,
    min_size_bytes: u64,
    sample_bytes: u64,
}

impl Default for History {
    fn default() -> Self {
        History::all()
    }
}

impl History {
    /// Everything: all events, all stacks, at most 1,000,000 entries a device.
    #[must_use]
    pub fn all() -> History {
        History {
            enabled: Enabled::All,
            context: Context::All,
            stacks: StackKind::Native,
            max_entries: 1_000_000,
            clear_history: false,
            skip_actions: Vec::new(),
            min_size_bytes: 0,
            sample_bytes: 0,
        }
    }

    /// Only the stacks of what is live.
    #[must_use]
    pub fn state() -> History {
        History { enabled: Enabled::State, ..History::all() }
    }

    /// Nothing.
    #[must_use]
    pub fn off() -> History {
        History { enabled: Enabled::Off, ..History::all() }
    }

    /// Whether events are kept. Default: all.
    #[must_use]
    pub fn enabled(self, enabled: Enabled) -> History {
        History { enabled, ..self }
    }

    /// For what stacks are captured. Default: all.
    #[must_use]
    pub fn context(self, context: Context) -> History {
        History { context, ..self }
    }

    /// Which frames a stack has. Default: native.
    #[must_use]
    pub fn stacks(self, stacks: StackKind) -> History {
        History { stacks, ..self }
    }

    /// How many events each device's ring holds; 0 is taken as 1.
    /// Default: 1,000,000. PyTorch's is unbounded.
    #[must_use]
    pub fn max_entries(self, max_entries: usize) -> History {
        History { max_entries, ..self }
    }

    /// Whether to erase what was recorded before. Default: no.
    #[must_use]
    pub fn clear_history(self, clear_history: bool) -> History {
        History { clear_history, ..self }
    }

    /// Actions that are not kept. Default: none. Skipping `segment_alloc`,
    /// `segment_free` or `free_completed` makes the viewer's state history
    /// fail (snapshot-format.md 3.5).
    #[must_use]
    pub fn skip_actions(self, actions: impl IntoIterator<Item = Action>) -> History {
        History { skip_actions: actions.into_iter().collect(), ..self }
    }

    /// Smaller allocations leave no events and no stacks, nor do their frees.
    /// Default: 0, none is left out. Blocks that were left out are still in a
    /// snapshot's segments.
    #[must_use]
    pub fn min_size(self, min_size_bytes: u64) -> History {
        History { min_size_bytes, ..self }
    }

    /// Keeps one allocation in every so many bytes, with its frees: each with
    /// a probability that grows with its size, so that sums can be estimated
    /// without bias ([`sample_weight`](super::sample_weight)). Default: 0, all
    /// are kept. A sampled snapshot says so in its settings.
    #[must_use]
    pub fn sample_every(self, bytes: u64) -> History {
        History { sample_bytes: bytes, ..self }
    }

    /// Whether one in so many bytes is kept; 0 without sampling.
    pub(crate) fn sample_bytes(&self) -> u64 {
        self.sample_bytes
    }

    /// Below which size allocations are left out.
    pub(crate) fn min_size_bytes(&self) -> u64 {
        self.min_size_bytes
    }

    /// How many entries a ring holds under these options.
    pub(super) fn capacity(&self) -> usize {
        if self.enabled == Enabled::All { self.max_entries.max(1) } else { 1 }
    }

    pub(super) fn erases(&self) -> bool {
        self.clear_history || self.enabled == Enabled::Off
    }

    pub(super) fn mode(&self) -> Mode {
        if self.enabled == Enabled::Off {
            return Mode(0);
        }
        let context = if self.stacks == StackKind::None { Context::None } else { self.context };
        let skipped = self.skip_actions.iter().fold(0, |bits, action| bits | skip_bit(*action));
        let filters = if self.min_size_bytes > 0 || self.sample_bytes > 0 { Mode::FILTERS } else { 0 };
        Mode(Mode::ON | context as u32 | skipped | filters)
    }
}

fn skip_bit(action: Action) -> u32 {
    1 << (8 + action as u32)
}

/// All that recording an event must know, in one word: bits 0–1 the context,
/// bit 2 on, bit 3 whether sizes decide, bits 8–17 the skipped actions. Off is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mode(u32);

impl Mode {
    const CONTEXT: u32 = 0b11;
    const ON: u32 = 0b100;
    const FILTERS: u32 = 0b1000;

    #[inline(always)]
    pub(super) fn is_off(self) -> bool {
        self.0 == 0
    }

    /// Whether an event of that action is kept, if recording is not off.
    #[inline(always)]
    pub(super) fn keeps(self, action: Action) -> bool {
        self.0 & skip_bit(action) == 0
    }

    /// Whether an allocation's size decides if it is kept.
    #[inline(always)]
    pub(super) fn filters(self) -> bool {
        self.0 & Mode::FILTERS != 0
    }

    /// Whether a kept event keeps its stack (caching-allocator.md 9.2).
    #[inline(always)]
    pub(super) fn keeps_stacks(self) -> bool {
        self.0 & Mode::CONTEXT >= Context::Alloc as u32
    }

    /// Whether a stack is captured there.
    #[inline]
    pub(super) fn captures(self, at: CapturePoint) -> bool {
        let least = match at {
            CapturePoint::Alloc => Context::State,
            CapturePoint::Free => Context::All,
        };
        self.0 & Mode::CONTEXT >= least as u32
    }
}

/// The mode in force: recording that is off costs one load and a branch.
#[derive(Debug, Default)]
pub(super) struct AtomicMode(AtomicU32);

impl AtomicMode {
    #[inline(always)]
    pub(super) fn load(&self) -> Mode {
        Mode(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn store(&self, mode: Mode) {
        self.0.store(mode.0, Ordering::Relaxed);
    }
}

impl FromStr for Enabled {
    type Err = Error;

    fn from_str(text: &str) -> Result<Enabled> {
        match text {
            "off" | "None" => Ok(Enabled::Off),
            "state" => Ok(Enabled::State),
            "all" => Ok(Enabled::All),
            _ => Err(Error::invalid_option("enabled", text, "\"off\", \"state\" or \"all\"")),
        }
    }
}

impl FromStr for Context {
    type Err = Error;

    fn from_str(text: &str) -> Result<Context> {
        match text {
            "none" | "None" => Ok(Context::None),
            "state" => Ok(Context::State),
            "alloc" => Ok(Context::Alloc),
            "all" => Ok(Context::All),
            _ => Err(Error::invalid_option("context", text, "\"none\", \"state\", \"alloc\" or \"all\"")),
        }
    }
}

impl FromStr for StackKind {
    type Err = Error;

    /// PyTorch's `"all"` is taken as native; its `"python"` is refused,
    /// because memreel sees no Python frames.
    fn from_str(text: &str) -> Result<StackKind> {
        match text {
            "native" | "all" => Ok(StackKind::Native),
            "none" | "None" => Ok(StackKind::None),
            _ => Err(Error::invalid_option("stacks", text, "\"native\" or \"none\"")),
        }
    }
}

impl FromStr for Action {
    type Err = Error;

    fn from_str(text: &str) -> Result<Action> {
        Action::from_name(text).ok_or_else(|| {
            let names: Vec<_> = Action::ALL.into_iter().map(Action::name).collect();
            Error::invalid_option("skip_actions", text, format!("one of {}", names.join(", ")))
        })
    }
}
