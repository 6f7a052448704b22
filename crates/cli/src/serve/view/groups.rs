//! The meaning of colours: the group of each block, by its stack, owner, pool and so on, and the groups' names.

#![forbid(unsafe_code)]

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use memreel_snapshot::{
    PoolId,
    analysis::{Bytes, DeviceHistory, Owners, Pools},
    history::{Life, Moment},
    model::{Frame, StackIndex},
    words::SeededMap,
};

use super::{
    refusal::Refusal,
    words::{self, cut},
};
use crate::text::clean_display;

/// What the blocks of a picture are coloured by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Colour {
    Stack,
    Function,
    Owner,
    Pool,
    Stream,
    Scope,
    Size,
    Age,
}

pub(super) const COLOURS: [(&str, Colour); 8] = [
    ("stack", Colour::Stack),
    ("function", Colour::Function),
    ("owner", Colour::Owner),
    ("pool", Colour::Pool),
    ("stream", Colour::Stream),
    ("scope", Colour::Scope),
    ("size", Colour::Size),
    ("age", Colour::Age),
];

impl Colour {
    pub(super) fn parse(text: Option<&str>) -> Result<Colour, Refusal> {
        let text = text.unwrap_or("stack");
        let found = COLOURS.iter().find(|(name, _)| *name == text);
        found.map(|(_, colour)| *colour).ok_or_else(|| {
            let names: Vec<&str> = COLOURS.iter().map(|(name, _)| *name).collect();
            Refusal::usage(format!("{text:?} is not a colour; use one of {}", names.join(", ")))
        })
    }
}

/// The groups of each colour, computed at the first use.
#[derive(Default)]
pub(super) struct Palette([OnceLock<Groups>; COLOURS.len()]);

impl Palette {
    /// Returns the groups of a colour, numbered by what they hold at a moment.
    pub(super) fn groups(&self, history: &DeviceHistory<'_>, moment: Moment, colour: Colour) -> &Groups {
        self.0[colour as usize].get_or_init(|| Groups::new(history, colour).ranked(history, moment))
    }
}

/// The groups of one colour.
pub(super) struct Groups {
    of: Of,
    pub(super) names: Vec<String>,
}

/// How the group of a life is found.
enum Of {
    /// By the number of its stack; the last is that of lives without one.
    Stack(Vec<u32>),
    Life(Vec<u32>),
    /// All lives are of one group.
    One,
    /// The binary logarithm of its bytes.
    Size,
    /// The binary logarithm of the events of its life.
    Age {
        end: u32,
    },
}

/// Numbers for names, in the order in which they first occur.
#[derive(Default)]
struct Numbers {
    names: Vec<String>,
    of: HashMap<String, u32>,
}

impl Numbers {
    fn of(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.of.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

impl Groups {
    fn new(history: &DeviceHistory<'_>, colour: Colour) -> Groups {
        let shown = history.shown_frames();
        match colour {
            Colour::Stack => Groups::of_stacks(history, |stack| {
                let calls: Vec<String> = shown.identifying_frames(stack).take(3).map(words::call).collect();
                if calls.is_empty() { shown.no_stack().to_owned() } else { calls.join(" ← ") }
            }),
            Colour::Function => {
                let function = |frame: &Frame| words::function(frame);
                Groups::of_stacks(history, |stack| {
                    shown.innermost(stack).map_or_else(|| shown.no_stack().to_owned(), function)
                })
            }
            Colour::Owner => {
                let mut owners = Owners::new(history.snapshot());
                Groups::of_stacks(history, |stack| owners.of(Some(stack)).to_string())
            }
            Colour::Pool => {
                let (pools, mut numbers) = (Pools::new(history), Numbers::default());
                let mut known = BTreeMap::new();
                Groups::of_lives(history, |life| {
                    let pool = pools.of(life);
                    *known.entry(pool).or_insert_with(|| numbers.of(pool_name(pool)))
                })
                .named(numbers)
            }
            Colour::Stream => {
                let (mut numbers, mut known) = (Numbers::default(), HashMap::new());
                Groups::of_lives(history, |life| {
                    let name = || format!("stream {}", crate::text::labels::stream(life.stream));
                    *known.entry(life.stream).or_insert_with(|| numbers.of(name()))
                })
                .named(numbers)
            }
            Colour::Scope => {
                let (scopes, mut numbers) = (history.scopes(), Numbers::default());
                let mut known = HashMap::new();
                Groups::of_lives(history, |life| match scopes.of_life(life) {
                    None => numbers.of("before the history".to_owned()),
                    Some(path) => *known.entry(path).or_insert_with(|| {
                        numbers.of(if path.is_empty() {
                            "no scope".to_owned()
                        } else {
                            cut(&clean_display(path)).into_owned()
                        })
                    }),
                })
                .named(numbers)
            }
            Colour::Size => {
                let name = |power: u32| format!("{} to {}", Bytes(1 << power), Bytes(2 << power.min(62)));
                Groups { of: Of::Size, names: (0..64).map(name).collect() }
            }
            Colour::Age => {
                let name = |power: u32| format!("{} events or more", 1_u64 << power);
                Groups { of: Of::Age { end: history.end().0 }, names: (0..33).map(name).collect() }
            }
        }
    }

    fn of_stacks(history: &DeviceHistory<'_>, mut name: impl FnMut(StackIndex) -> String) -> Groups {
        let (lives, n_stacks) = (history.lives(), history.snapshot().stacks.len());
        let no_stack = history.shown_frames().no_stack();
        let (mut numbers, mut known) = (Numbers::default(), SeededMap::default());
        let number = |life: &Life| -> u32 {
            let mut name = |stack: Option<StackIndex>| stack.map_or_else(|| no_stack.to_owned(), &mut name);
            *known.entry(life.stack).or_insert_with_key(|stack| numbers.of(name(*stack)))
        };
        let of_lives: Vec<u32> = lives.iter().map(number).collect();
        // The stacks are those of all devices, each of which may have few.
        let of = if of_lives.len() <= n_stacks {
            Of::Life(of_lives)
        } else {
            let mut of = vec![u32::MAX; n_stacks + 1];
            for (stack, number) in known {
                of[stack.map_or(n_stacks, StackIndex::index)] = number;
            }
            Of::Stack(of)
        };
        Groups { of, names: numbers.names }
    }

    fn of_lives(history: &DeviceHistory<'_>, number: impl FnMut(&Life) -> u32) -> Groups {
        Groups { of: Of::Life(history.lives().iter().map(number).collect()), names: Vec::new() }
    }

    fn named(self, numbers: Numbers) -> Groups {
        let of = if numbers.names.len() > 1 { self.of } else { Of::One };
        Groups { of, names: numbers.names }
    }

    /// Numbers the groups by what they hold at a moment, the largest first, so that the largest have different colours.
    fn ranked(mut self, history: &DeviceHistory<'_>, moment: Moment) -> Groups {
        let (Of::Stack(_) | Of::Life(_)) = self.of else { return self };
        let mut bytes = vec![0_u64; self.names.len()];
        for (number, life) in (0..).zip(history.lives()) {
            if life.is_active_at(moment) {
                let sum = &mut bytes[self.number(life, number) as usize];
                *sum = sum.saturating_add(life.represented_bytes);
            }
        }
        let mut order: Vec<u32> = (0..).take(bytes.len()).collect();
        order.sort_by_key(|group| (Reverse(bytes[*group as usize]), *group));
        let mut rank = vec![0; order.len()];
        (0..).zip(&order).for_each(|(place, group)| rank[*group as usize] = place);
        if let Of::Stack(of) | Of::Life(of) = &mut self.of {
            // A stack that no life has is of no group.
            of.iter_mut().for_each(|group| *group = rank.get(*group as usize).copied().unwrap_or(*group));
        }
        self.names = order.iter().map(|group| std::mem::take(&mut self.names[*group as usize])).collect();
        self
    }

    /// Returns the group of a life, given its number.
    pub(super) fn number(&self, life: &Life, number: u32) -> u32 {
        match &self.of {
            Of::Stack(of) => of[life.stack.map_or(of.len() - 1, StackIndex::index)],
            Of::Life(of) => of[number as usize],
            Of::One => 0,
            Of::Size => life.represented_bytes.max(1).ilog2(),
            Of::Age { end } => life.until.0.min(*end).saturating_sub(life.from.0).max(1).ilog2(),
        }
    }

    /// Returns the name of the group of a life.
    pub(super) fn name(&self, life: &Life, number: u32) -> &str {
        self.names.get(self.number(life, number) as usize).map_or("", String::as_str)
    }
}

pub(super) fn pool_name(pool: Option<PoolId>) -> String {
    match pool {
        None => "unknown".to_owned(),
        Some(PoolId::DEFAULT) => "default".to_owned(),
        Some(pool) => pool.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use memreel_snapshot::{
        Action, Address, DeviceId, Snapshot,
        analysis::Histories,
        model::{TraceEntry, raw::Shape},
    };

    use super::*;

    /// A device of each of many stacks would else have a table of all of them.
    #[test]
    fn a_table_is_no_longer_than_the_lives_of_its_device() {
        const N_DEVICES: i64 = 100;
        let mut snapshot = Snapshot::default();
        snapshot.shapes.intern(Shape::from_fields(&[]));
        for at in 0..N_DEVICES {
            let name = format!("f{at}").into();
            let frame = snapshot.stacks.intern_frame(Frame { name, ..Frame::default() });
            let (action, stack) = (Some(Action::Alloc), Some(snapshot.stacks.intern_stack(&[frame])));
            let entry =
                TraceEntry { action, address: Address(512), size: 512, stack, ..TraceEntry::default() };
            snapshot.device_traces.push(vec![entry]);
        }
        let histories = Histories::new(&snapshot);
        for at in 0..N_DEVICES {
            let history = histories.of(DeviceId(at));
            for colour in [Colour::Stack, Colour::Function, Colour::Owner] {
                let groups = Groups::new(&history, colour);
                let (Of::Stack(of) | Of::Life(of)) = &groups.of else { panic!("{colour:?}") };
                assert_eq!((of.len(), groups.names.len()), (1, 1), "{colour:?}");
            }
            let groups = Groups::new(&history, Colour::Function);
            assert_eq!(groups.name(&history.lives()[0], 0), format!("f{at}"));
        }
    }
}
