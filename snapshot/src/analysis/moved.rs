//! Sites that another version of a program has at other lines, or that was built in another folder.
//!
//! Code that is added above an allocation moves its line, so that a site of the snapshot before seems gone and another added.
//! Two such sites have the same functions in files of the same names, which may lie in a folder that the other snapshot does
//! not know. They are one if no line differs; or if as many bytes are in as many blocks, and nothing behind the lower one of
//! two lines stayed where it was; or if their lines moved as those of such a site did.

use super::{
    frames::ShownFrames,
    site::Site,
    site_key::{SiteKey, SiteKeys},
    top::Group,
};
use crate::words::{SeededMap, SeededSet, paths::base_name};

/// The functions of a site, innermost first, each with the name of its file.
type Functions<'a> = Box<[(&'a str, &'a str)]>;

/// A group that one of two snapshots has alone.
struct Lone<'a, 'g> {
    /// The files and the lines of its calls, innermost first.
    calls: Box<[(&'a str, u64)]>,
    /// Its place in the caller's list.
    place: usize,
    group: &'g Group,
}

impl Lone<'_, '_> {
    fn lines(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().map(|call| call.1)
    }
}

/// Returns which groups of the first snapshot are groups of the second, by their places. `alone` has the places of those that
/// one snapshot has alone, each with the number of that snapshot; `shown` is of both.
pub(super) fn pairs<'g>(
    alone: impl Iterator<Item = (usize, (usize, &'g Group))>,
    shown: &[ShownFrames<'_>; 2],
) -> Vec<[usize; 2]> {
    let mut of_functions: SeededMap<Functions<'_>, [Vec<Lone<'_, 'g>>; 2]> = SeededMap::default();
    for (place, (side, group)) in alone {
        let Site::Stack(stack) = group.site else { continue };
        let frames = shown[side].identifying_frames(stack);
        let (functions, calls): (Vec<_>, Vec<(&str, u64)>) = frames
            .map(|frame| ((&*frame.name, base_name(&frame.filename)), (&*frame.filename, frame.line)))
            .unzip();
        let lone = Lone { calls: calls.into(), place, group };
        of_functions.entry(functions.into()).or_default()[side].push(lone);
    }
    of_functions.retain(|_, sides| sides.iter().all(|side| !side.is_empty()));
    if of_functions.is_empty() {
        return Vec::new();
    }
    of_functions
        .values_mut()
        .flatten()
        .for_each(|side| side.sort_unstable_by(|one, other| one.lines().cmp(other.lines())));
    let mut moves = Moves::of(shown);
    let mut pairs = Vec::new();
    for pass in [Moves::are_alike, Moves::are_known] {
        for (functions, [before, after]) in &mut of_functions {
            before.retain(|one| {
                let Some(at) = after.iter().position(|other| pass(&moves, functions, one, other)) else {
                    return true;
                };
                let other = after.remove(at);
                moves.learn(functions, one, &other);
                pairs.push([one.place, other.place]);
                false
            });
        }
    }
    pairs
}

/// How the lines of files moved from one snapshot to the next.
struct Moves<'a> {
    /// The last line of each file that stayed where it was: of the stacks that both have.
    stayed: SeededMap<&'a str, u64>,
    /// The files of both.
    files: [SeededSet<&'a str>; 2],
    /// By how much lines of a file moved.
    shifts: SeededSet<(&'a str, i128)>,
}

impl<'a> Moves<'a> {
    fn of([before, after]: &[ShownFrames<'a>; 2]) -> Moves<'a> {
        let mut keys = SiteKeys::default();
        let known: SeededSet<SiteKey> =
            after.all_stacks().map(|stack| keys.of(&Site::Stack(stack), after)).collect();
        let mut stayed = SeededMap::default();
        for stack in
            before.all_stacks().filter(|stack| known.contains(&keys.of(&Site::Stack(*stack), before)))
        {
            for frame in before.identifying_frames(stack) {
                let last = stayed.entry(base_name(&frame.filename)).or_insert(0);
                *last = frame.line.max(*last);
            }
        }
        let files = [before, after].map(|shown| shown.all_frames().map(|frame| &*frame.filename).collect());
        Moves { stayed, files, shifts: SeededSet::default() }
    }

    /// Returns whether two groups have the same lines in other folders, or the same bytes at lines that may have moved.
    fn are_alike(&self, functions: &Functions<'a>, one: &Lone<'a, '_>, other: &Lone<'a, '_>) -> bool {
        let is_as_much = (one.group.bytes, one.group.n_blocks) == (other.group.bytes, other.group.n_blocks);
        let stays =
            |(file, _): (&str, i128), line: u64| self.stayed.get(file).is_some_and(|last| line <= *last);
        let has_moved = || !moved(functions, one, other).any(|(shift, line)| stays(shift, line));
        self.may_be_files_of(one, other) && (one.lines().eq(other.lines()) || is_as_much && has_moved())
    }

    /// Returns whether the files of two groups may be the same: of two paths, neither snapshot has the other's.
    fn may_be_files_of(&self, one: &Lone<'a, '_>, other: &Lone<'a, '_>) -> bool {
        let [before, after] = &self.files;
        let mut files = one.calls.iter().map(|call| call.0).zip(other.calls.iter().map(|call| call.0));
        files.all(|(one, other)| one == other || !after.contains(one) && !before.contains(other))
    }

    /// Returns whether all lines of two groups that differ moved as others did.
    fn are_known(&self, functions: &Functions<'a>, one: &Lone<'a, '_>, other: &Lone<'a, '_>) -> bool {
        self.may_be_files_of(one, other)
            && moved(functions, one, other).all(|(shift, _)| self.shifts.contains(&shift))
    }

    fn learn(&mut self, functions: &Functions<'a>, one: &Lone<'a, '_>, other: &Lone<'a, '_>) {
        self.shifts.extend(moved(functions, one, other).map(|(shift, _)| shift));
    }
}

/// Returns the files in which lines of two groups differ, each with by how much, and the lower line.
fn moved<'a>(
    functions: &Functions<'a>,
    one: &Lone<'a, '_>,
    other: &Lone<'a, '_>,
) -> impl Iterator<Item = ((&'a str, i128), u64)> {
    let calls = functions.iter().zip(one.lines().zip(other.lines()));
    let moved = calls.filter(|(_, (line, other))| line != other);
    moved.map(|((_, file), (line, other))| ((*file, i128::from(other) - i128::from(line)), line.min(other)))
}
