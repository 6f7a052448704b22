//! Matches sites that are at other lines in another version of a program, or in another folder of another build.
//!
//! Code that is added above an allocation moves its line, so that a site of the earlier snapshot seems gone and another
//! one added. Two such sites have the same functions in files with the same names, which may be in a folder that the
//! other snapshot does not have. They are one site in three cases: if no line differs; if the same number of bytes is
//! in the same number of blocks, and nothing after the lower of two lines stayed in place; or if their lines moved like
//! those of such a site.
//!
//! A file may have as many such sites as it has records, so they are not compared pairwise: the first two rules are
//! keys, and the third examines at most [`MAX_STEPS`] sites.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

use crate::{
    analysis::{
        Group, ShownFrames, Site,
        sites::{SiteKey, SiteKeys},
        state::{SharedRecords, StayedLines},
    },
    words::{SeededMap, SeededSet, paths::base_name},
};

/// The functions of a site, innermost first.
type Functions<'a> = Box<[Function<'a>]>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Function<'a> {
    name: &'a str,
    file: &'a str,
    /// The whole path of a file that both snapshots have. Of two others, each may be the other one, in another folder.
    path: Option<&'a str>,
}

/// A group that only one of two snapshots has.
struct Lone<'g> {
    /// The lines of its calls, innermost first.
    lines: Box<[u64]>,
    /// Its place in the caller's list.
    place: usize,
    group: &'g Group,
}

/// Returns which groups of the first snapshot are groups of the second, by their places. `alone` has the places of
/// those that only one snapshot has, each with the number of that snapshot; `shown` and `shared` belong to both.
pub(super) fn pairs<'g>(
    alone: impl Iterator<Item = (usize, (usize, &'g Group))>,
    shown: &[ShownFrames<'_>; 2],
    shared: [&SharedRecords<'_>; 2],
) -> Vec<[usize; 2]> {
    let alone: Vec<_> = alone.collect();
    if [0, 1].iter().any(|side| alone.iter().all(|(_, (of, _))| of != side)) {
        return Vec::new();
    }
    let files = shared.map(SharedRecords::files);
    let mut of_functions: SeededMap<Functions<'_>, [Vec<Lone<'g>>; 2]> = SeededMap::default();
    for (place, (side, group)) in alone {
        let Site::Stack(stack) = group.site else { continue };
        let frames = shown[side].identifying_frames(stack);
        let (functions, lines): (Vec<_>, Vec<_>) = frames
            .map(|frame| {
                let path = Some(&*frame.filename).filter(|path| files[1 - side].contains(*path));
                (Function { name: &frame.name, file: base_name(&frame.filename), path }, frame.line)
            })
            .unzip();
        let lone = Lone { lines: lines.into(), place, group };
        of_functions.entry(functions.into()).or_default()[side].push(lone);
    }
    of_functions.retain(|_, sides| sides.iter().all(|side| !side.is_empty()));
    if of_functions.is_empty() {
        return Vec::new();
    }
    of_functions
        .values_mut()
        .flatten()
        .for_each(|side| side.sort_unstable_by(|one, other| one.lines.cmp(&other.lines)));
    let mut moves =
        Moves { stayed: shared[0].stayed(shared[1], || stayed(shown)), shifts: SeededMap::default() };
    let mut pairs = Vec::new();
    for (functions, sides) in &mut of_functions {
        moves.pair_alike(functions, sides, &mut pairs);
    }
    for (functions, sides) in &of_functions {
        moves.pair_known(functions, sides, &mut pairs);
    }
    pairs
}

/// What two groups must share to be one.
#[derive(PartialEq, Eq, Hash)]
enum Alike<'l> {
    Lines(&'l [u64]),
    /// The lines that stayed, `None` for those that may have moved; the bytes and the blocks.
    Amount(Box<[Option<u64>]>, u64, usize),
}

/// How the lines of files moved from one snapshot to the next.
struct Moves<'a> {
    /// The last line of each file that stayed where it was: of the stacks that both have.
    stayed: Arc<StayedLines>,
    /// By how much lines of a file moved.
    shifts: SeededMap<&'a str, BTreeSet<i128>>,
}

/// Finds what stayed where it was.
fn stayed([before, after]: &[ShownFrames<'_>; 2]) -> StayedLines {
    let mut keys = SiteKeys::default();
    let known: SeededSet<SiteKey> =
        after.all_stacks().map(|stack| keys.of(&Site::Stack(stack), after)).collect();
    let mut stayed = SeededMap::<&str, u64>::default();
    for stack in before.all_stacks().filter(|stack| known.contains(&keys.of(&Site::Stack(*stack), before))) {
        for frame in before.identifying_frames(stack) {
            let last = stayed.entry(base_name(&frame.filename)).or_insert(0);
            *last = frame.line.max(*last);
        }
    }
    stayed.into_iter().map(|(file, line)| (file.into(), line)).collect()
}

impl<'a> Moves<'a> {
    /// Returns the keys of a group: it matches the first group of the other snapshot that has one of them.
    fn alike<'l>(&self, functions: &Functions<'a>, one: &'l Lone<'_>) -> [Alike<'l>; 2] {
        let may_have_moved = |(function, line): (&Function<'_>, &u64)| {
            self.stayed.get(function.file).is_none_or(|last| line > last)
        };
        let lines = functions.iter().zip(&one.lines);
        let stayed = lines.map(|at| if may_have_moved(at) { None } else { Some(*at.1) }).collect();
        [Alike::Lines(&one.lines), Alike::Amount(stayed, one.group.bytes, one.group.n_blocks)]
    }

    /// Removes the groups with the same lines, or with the same bytes at lines that may have moved.
    fn pair_alike(
        &mut self,
        functions: &Functions<'a>,
        sides: &mut [Vec<Lone<'_>>; 2],
        pairs: &mut Vec<[usize; 2]>,
    ) {
        let [before, after] = &*sides;
        let mut places: SeededMap<Alike<'_>, VecDeque<usize>> = SeededMap::default();
        for (at, other) in after.iter().enumerate() {
            for key in self.alike(functions, other) {
                places.entry(key).or_default().push_back(at);
            }
        }
        let mut is_paired = [before, after].map(|side| vec![false; side.len()]);
        for (from, one) in before.iter().enumerate() {
            let first = self.alike(functions, one).into_iter().filter_map(|key| {
                let places = places.get_mut(&key)?;
                while is_paired[1][*places.front()?] {
                    places.pop_front();
                }
                places.front().copied()
            });
            let Some(at) = first.min() else { continue };
            (is_paired[0][from], is_paired[1][at]) = (true, true);
            self.learn(functions, one, &after[at]);
            pairs.push([one.place, after[at].place]);
        }
        for (side, is_paired) in sides.iter_mut().zip(is_paired) {
            let mut is_paired = is_paired.into_iter();
            side.retain(|_| is_paired.next() == Some(false));
        }
    }

    fn learn(&mut self, functions: &Functions<'a>, one: &Lone<'_>, other: &Lone<'_>) {
        for (function, (line, other)) in functions.iter().zip(one.lines.iter().zip(&other.lines)) {
            if line != other {
                self.shifts.entry(function.file).or_default().insert(shift(*line, *other));
            }
        }
    }

    /// Adds the groups whose differing lines all moved as others did.
    fn pair_known(
        &self,
        functions: &Functions<'a>,
        [before, after]: &[Vec<Lone<'_>>; 2],
        pairs: &mut Vec<[usize; 2]>,
    ) {
        // For groups with the same lines, how many are taken, at the place of the first.
        let mut n_taken = vec![0; after.len()];
        for one in before {
            if let Some(at) = self.known(functions, one, after, &mut n_taken) {
                pairs.push([one.place, after[at].place]);
            }
        }
    }

    /// Returns the first group, by lines, that a group may have become and that is not taken yet.
    fn known(
        &self,
        functions: &Functions<'a>,
        one: &Lone<'_>,
        after: &[Lone<'_>],
        n_taken: &mut [usize],
    ) -> Option<usize> {
        // For each examined call, the candidates whose earlier calls fit and that are left.
        let all = 0..after.len();
        let mut left = vec![all];
        for _ in 0..MAX_STEPS + functions.len() {
            let Range { start, end } = left.last()?.clone();
            let depth = left.len() - 1;
            let next = match functions.get(depth) {
                _ if start == end => None,
                None if start + n_taken[start] < end => {
                    n_taken[start] += 1;
                    return Some(start + n_taken[start] - 1);
                }
                None => None,
                Some(function) => self.next_line(function.file, one.lines[depth], after[start].lines[depth]),
            };
            let Some(line) = next else {
                left.pop();
                continue;
            };
            let rest = &after[start..end];
            let first = start + rest.partition_point(|other| other.lines[depth] < line);
            let behind = start + rest.partition_point(|other| other.lines[depth] <= line);
            left[depth].start = behind;
            left.push(first..behind);
        }
        None
    }

    /// Returns the first line, `from` or later, that a line of a file may have become.
    fn next_line(&self, file: &str, line: u64, from: u64) -> Option<u64> {
        let from = shift(line, from);
        let learned = self.shifts.get(file).and_then(|shifts| shifts.range(from..).next().copied());
        let shift = learned.into_iter().chain((from <= 0).then_some(0)).min()?;
        u64::try_from(i128::from(line) + shift).ok()
    }
}

/// The most steps to find a group among those with the same functions, in addition to one for each function: a real
/// program has a few such groups.
const MAX_STEPS: usize = 100;

/// Returns by how much a line moved.
fn shift(line: u64, other: u64) -> i128 {
    i128::from(other) - i128::from(line)
}
