//! Notes: what the numbers in events refer to, each encoded by itself with its checksum.
#![forbid(unsafe_code)]

use super::{
    layout::{BODY_BYTES, checksum, is_intact, sum_of_word},
    note_bytes::{In, Out},
};
use memreel_snapshot::words::{ResidentReport, UsageReport};

/// The size of what precedes the bytes of a note: their length with the flag [`HAS_MORE`], and their checksum.
const FRAME_BYTES: usize = 8;

/// The flag of a note that continues in the next frame.
const HAS_MORE: u32 = 1 << 31;

/// The most bytes of a note that fit into a slot.
pub(super) const MAX_PART_BYTES: usize = BODY_BYTES - FRAME_BYTES;

/// The size of the note of a scope's start or end, with what precedes it.
pub(super) const MAX_ANNOTATION_BYTES: usize = FRAME_BYTES + 28;

/// A note.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Note {
    /// The options of the recording.
    Recording(RecordingNote),
    /// A context: stream, pool and scope of events.
    Context { number: u32, stream: i64, graph: u64, user: u64, scope: u32 },
    /// The path of a scope, or the name of a block.
    Scope { number: u32, path: String },
    /// The start or the end of a scope.
    Annotation { is_start: bool, scope: u32, device: i64, ticks: u64 },
    /// The modules that are loaded from a generation on, and the address of the recorder's landmark.
    Modules { generation: u32, landmark: u64, modules: Vec<ModuleNote> },
    /// The frames of a word of the frame source.
    Source { word: u64, frames: Vec<NotedFrame> },
    /// The settings of the allocators, as keys and values.
    Settings(Vec<(String, String)>),
    /// A device's segments and blocks as they were after the event with the order word `until`. The ring had dropped
    /// events up to `horizon`; those up to it that are still in chunks do not count.
    Base { device: i64, until: u64, horizon: u64, n_missing: u64, slots: Vec<(u32, u64)> },
    /// The sampling interval of a device that has its own, in bytes.
    Sampling { device: i64, bytes: u64 },
    /// What a device reported about its memory.
    Usage { device: i64, reports: Vec<UsageNote> },
    /// The name of a device's number.
    Device { device: i64, name: String, uuid: String },
    /// A function that contains words of the frame source.
    Code(CodeNote),
    /// What the kernel reported about the process's resident memory at these ticks; its time is 0.
    Resident { ticks: u64, report: Box<ResidentReport> },
    /// A range that the program mapped itself, with the ticks from and until which it existed. Of several notes with
    /// the same start address and time, the last one counts.
    Mapped { start: u64, end: u64, stack: u32, from: u64, until: u64 },
}

/// A report of a device with its ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsageNote {
    pub(crate) ticks: u64,
    pub(crate) report: UsageReport,
}

/// The options of a recording, as far as a snapshot shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordingNote {
    pub(crate) capacity: u64,
    pub(crate) min_size_bytes: u64,
    pub(crate) sample_bytes: u64,
    pub(crate) has_gaps: bool,
    /// Whether frees of the heap have the stacks of their allocations.
    pub(crate) heap_frees_as_allocated: bool,
}

/// A module as it was loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ModuleNote {
    pub(crate) path: Vec<u8>,
    pub(crate) bias: u64,
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) build: u64,
}

/// A frame that a frame source named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NotedFrame {
    pub(crate) name: String,
    pub(crate) filename: String,
    pub(crate) line: u32,
}

/// A CPython function: words with its number in their upper 32 bits are in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeNote {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) qualname: String,
    pub(crate) filename: String,
    pub(crate) first_line: u32,
    /// The minor version of CPython 3, which determines the format of the table.
    pub(crate) version: u32,
    pub(crate) line_table: Vec<u8>,
}

impl Note {
    /// Returns the bytes of the note.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        match self {
            Note::Recording(of) => {
                let flags = u32::from(of.has_gaps) | u32::from(of.heap_frees_as_allocated) << 1;
                out.kind(1).u64(of.capacity).u64(of.min_size_bytes).u64(of.sample_bytes).u32(flags);
            }
            Note::Context { number, stream, graph, user, scope } => {
                out.kind(2).u32(*number).i64(*stream).u64(*graph).u64(*user).u32(*scope);
            }
            Note::Scope { number, path } => {
                out.kind(3).u32(*number).text(path.as_bytes());
            }
            Note::Annotation { is_start, scope, device, ticks } => {
                out.kind(4).u32((*is_start).into()).u32(*scope).i64(*device).u64(*ticks);
            }
            Note::Modules { generation, landmark, modules } => {
                out.kind(5).u32(*generation).u64(*landmark).u32(modules.len() as u32);
                for ModuleNote { path, bias, ranges, build } in modules {
                    out.text(path).u64(*bias).u64(*build).u32(ranges.len() as u32);
                    ranges.iter().for_each(|(from, to)| _ = out.u64(*from).u64(*to));
                }
            }
            Note::Source { word, frames } => {
                out.kind(6).u64(*word).u32(frames.len() as u32);
                for NotedFrame { name, filename, line } in frames {
                    out.text(name.as_bytes()).text(filename.as_bytes()).u32(*line);
                }
            }
            Note::Settings(pairs) => {
                out.kind(7).u32(pairs.len() as u32);
                pairs.iter().for_each(|(key, value)| _ = out.text(key.as_bytes()).text(value.as_bytes()));
            }
            Note::Base { device, until, horizon, n_missing, slots } => {
                out.kind(8).i64(*device).u64(*until).u64(*horizon).u64(*n_missing).u32(slots.len() as u32);
                slots.iter().for_each(|(slot, checksum)| _ = out.u32(*slot).u64(*checksum));
            }
            Note::Sampling { device, bytes } => {
                out.kind(9).i64(*device).u64(*bytes);
            }
            Note::Usage { device, reports } => {
                out.kind(10).i64(*device).u32(reports.len() as u32);
                reports.iter().for_each(|UsageNote { ticks, report }| out.usage(*ticks, report));
            }
            Note::Device { device, name, uuid } => {
                out.kind(11).i64(*device).text(name.as_bytes()).text(uuid.as_bytes());
            }
            Note::Code(CodeNote { number, name, qualname, filename, first_line, version, line_table }) => {
                out.kind(12).u32(*number).u32(*version).u32(*first_line);
                let texts = [name.as_bytes(), qualname.as_bytes(), filename.as_bytes(), line_table];
                texts.iter().for_each(|text| _ = out.text(text));
            }
            Note::Resident { ticks, report } => {
                out.kind(13).u64(*ticks).resident(report);
            }
            Note::Mapped { start, end, stack, from, until } => {
                out.kind(14).u64(*start).u64(*end).u32(*stack).u64(*from).u64(*until);
            }
        }
        out.0
    }

    /// Returns the note that these bytes encode, if they are one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Note> {
        let mut of = In(bytes);
        let note = match of.u32()? {
            1 => {
                let (capacity, min_size_bytes, sample_bytes) = (of.u64()?, of.u64()?, of.u64()?);
                let flags = of.u32()?;
                let (has_gaps, heap_frees_as_allocated) = (flags & 1 != 0, flags & 2 != 0);
                Note::Recording(RecordingNote {
                    capacity,
                    min_size_bytes,
                    sample_bytes,
                    has_gaps,
                    heap_frees_as_allocated,
                })
            }
            2 => Note::Context {
                number: of.u32()?,
                stream: of.i64()?,
                graph: of.u64()?,
                user: of.u64()?,
                scope: of.u32()?,
            },
            3 => Note::Scope { number: of.u32()?, path: of.string()? },
            4 => Note::Annotation {
                is_start: of.u32()? != 0,
                scope: of.u32()?,
                device: of.i64()?,
                ticks: of.u64()?,
            },
            5 => {
                let (generation, landmark) = (of.u32()?, of.u64()?);
                let modules = of.list(|of| {
                    let (path, bias, build) = (of.text()?.to_vec(), of.u64()?, of.u64()?);
                    Some(ModuleNote {
                        path,
                        bias,
                        build,
                        ranges: of.list(|of| Some((of.u64()?, of.u64()?)))?,
                    })
                })?;
                Note::Modules { generation, landmark, modules }
            }
            6 => {
                let word = of.u64()?;
                let frame = |of: &mut In<'_>| {
                    Some(NotedFrame { name: of.string()?, filename: of.string()?, line: of.u32()? })
                };
                Note::Source { word, frames: of.list(frame)? }
            }
            7 => Note::Settings(of.list(|of| Some((of.string()?, of.string()?)))?),
            8 => Note::Base {
                device: of.i64()?,
                until: of.u64()?,
                horizon: of.u64()?,
                n_missing: of.u64()?,
                slots: of.list(|of| Some((of.u32()?, of.u64()?)))?,
            },
            9 => Note::Sampling { device: of.i64()?, bytes: of.u64()? },
            10 => Note::Usage {
                device: of.i64()?,
                reports: of.list(|of| of.usage().map(|(ticks, report)| UsageNote { ticks, report }))?,
            },
            11 => Note::Device { device: of.i64()?, name: of.string()?, uuid: of.string()? },
            12 => {
                let (number, version, first_line) = (of.u32()?, of.u32()?, of.u32()?);
                let (name, qualname, filename) = (of.string()?, of.string()?, of.string()?);
                let line_table = of.text()?.to_vec();
                Note::Code(CodeNote { number, name, qualname, filename, first_line, version, line_table })
            }
            13 => Note::Resident { ticks: of.u64()?, report: Box::new(of.resident()?) },
            14 => Note::Mapped {
                start: of.u64()?,
                end: of.u64()?,
                stack: of.u32()?,
                from: of.u64()?,
                until: of.u64()?,
            },
            _ => return None,
        };
        of.0.is_empty().then_some(note)
    }
}

/// Returns the parts of a note, each of which fits into a slot, with their lengths and checksums.
pub(super) fn framed_parts(note: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let n_parts = note.len().div_ceil(MAX_PART_BYTES);
    note.chunks(MAX_PART_BYTES).zip(1..).map(move |(part, number)| framed(part, number < n_parts))
}

/// Returns a part of a note with its length and its checksum.
fn framed(part: &[u8], has_more: bool) -> Vec<u8> {
    let len = part.len() as u32 | if has_more { HAS_MORE } else { 0 };
    [&len.to_le_bytes(), &(checksum(part) as u32).to_le_bytes(), part].concat()
}

/// Calls `look` with the bytes of each note in the bodies of slots, in order; returns how many were incomplete.
pub(super) fn for_each_note<'a>(
    bodies: impl Iterator<Item = &'a [u8]>,
    mut look: impl FnMut(&[u8]),
) -> usize {
    let (mut n_broken, mut whole, mut is_broken) = (0, Vec::new(), false);
    for body in bodies {
        let mut rest = body;
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len);
            let n_bytes = (len & !HAS_MORE) as usize;
            let part =
                after.split_first_chunk::<4>().and_then(|(sum, after)| Some((sum, after.get(..n_bytes)?)));
            let Some((sum, part)) = part.filter(|(_, part)| !part.is_empty()) else {
                // No note is empty: the length is wrong, so the notes after it cannot be found.
                n_broken += 1;
                is_broken = true;
                break;
            };
            is_broken |= !is_intact(part, sum_of_word(*sum));
            whole.extend_from_slice(part);
            rest = &after[4 + n_bytes..];
            if len & HAS_MORE == 0 {
                if is_broken {
                    n_broken += 1
                } else {
                    look(&whole)
                }
                whole.clear();
                is_broken = false;
            }
        }
    }
    n_broken + usize::from(!whole.is_empty())
}

/// Returns where the last complete note of consecutive bodies ends: the number of the body, and the offset in it.
/// Damaged notes count as complete, so that they are read once.
pub(super) fn end_of_whole<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Option<(usize, usize)> {
    let mut end = None;
    for (nth, body) in bodies.enumerate() {
        let mut at = 0;
        while let Some(len) = body.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            let len = u32::from_le_bytes(*len);
            let n_bytes = (len & !HAS_MORE) as usize;
            at = at.saturating_add(FRAME_BYTES).saturating_add(n_bytes);
            if n_bytes == 0 || at > body.len() {
                end = Some((nth, body.len()));
                break;
            }
            if len & HAS_MORE == 0 {
                end = Some((nth, at));
            }
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use memreel_snapshot::words::{AreaKind, DeviceId, GroupReport, ResidentArea};

    fn usage(other_processes_bytes: Option<u64>) -> UsageNote {
        let report = UsageReport {
            used_bytes: 2,
            total_bytes: u64::MAX,
            other_processes_bytes,
            no_process_bytes: 5,
            pool_slack_bytes: 3,
            page_rounding_bytes: 4,
            reserved_address_bytes: 6,
        };
        UsageNote { ticks: 1, report }
    }

    fn resident(group: Option<GroupReport>) -> Note {
        let area = ResidentArea {
            kind: AreaKind::Shared,
            name: "/dev/shm/batch".into(),
            range: 4096..40_960,
            resident_bytes: 8192,
            shared_out_bytes: 4096,
            huge_bytes: 0,
            holes: vec![8192..12_288, 16_384..36_864],
        };
        let report = ResidentReport {
            device: DeviceId(1),
            resident_bytes: 5,
            recorder_bytes: 6,
            group,
            areas: vec![area, ResidentArea::default()],
            ..ResidentReport::default()
        };
        Note::Resident { ticks: 9, report: Box::new(report) }
    }

    fn notes() -> Vec<Note> {
        let module =
            ModuleNote { path: b"/bin/a".to_vec(), bias: 5, ranges: vec![(1, 2), (3, u64::MAX)], build: 9 };
        let frame = NotedFrame { name: "f".into(), filename: "a.py".into(), line: 7 };
        vec![
            Note::Recording(RecordingNote {
                capacity: 5,
                min_size_bytes: 6,
                sample_bytes: 7,
                has_gaps: false,
                heap_frees_as_allocated: true,
            }),
            Note::Context { number: 1, stream: -2, graph: 3, user: 4, scope: 5 },
            Note::Scope { number: 1, path: "a/b".into() },
            Note::Annotation { is_start: true, scope: 1, device: -1, ticks: 8 },
            Note::Modules { generation: 2, landmark: 77, modules: vec![module.clone(), module] },
            Note::Source { word: 9, frames: vec![frame; 2] },
            Note::Settings(vec![("conf".into(), "x:1".into()), (String::new(), String::new())]),
            Note::Base { device: 3, until: 4, horizon: 2, n_missing: 1, slots: vec![(1, 2), (u32::MAX, 3)] },
            Note::Sampling { device: 4, bytes: 5 },
            Note::Usage { device: -1, reports: vec![usage(None), usage(Some(0)), usage(Some(u64::MAX))] },
            Note::Device { device: 1, name: "NVIDIA H200".into(), uuid: "GPU-1".into() },
            Note::Code(CodeNote {
                number: 7,
                name: "forward".into(),
                qualname: "Linear.forward".into(),
                filename: "linear.py".into(),
                first_line: 12,
                version: 13,
                line_table: vec![0x80, 0, 0xff],
            }),
            resident(None),
            resident(Some(GroupReport { used_bytes: 3, limit_bytes: Some(4), ..GroupReport::default() })),
        ]
    }

    #[test]
    fn notes_come_back_equal_and_half_ones_do_not() {
        for note in notes() {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Some(note.clone()));
            for len in 0..bytes.len() {
                assert_eq!(Note::decode(&bytes[..len]), None, "{note:?} of {len} bytes");
            }
        }
    }

    #[test]
    fn what_is_broken_is_counted_and_the_rest_is_read() {
        let parts: Vec<Vec<u8>> = notes().iter().map(|note| framed(&note.encode(), false)).collect();
        let whole = parts.concat();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let mut n = 0;
            let n_broken = for_each_note([&bytes[..]].into_iter(), |_| n += 1);
            assert!(n_broken >= 1 && n < parts.len(), "byte {at}");
        }
        let long = [framed(b"ab", true), framed(b"c", false)];
        let mut seen = Vec::new();
        for_each_note(long.iter().map(|part| &part[..]), |note| seen.push(note.to_vec()));
        assert_eq!(seen, [b"abc"]);
        let bodies = || long.iter().map(|part| &part[..]);
        assert_eq!(end_of_whole(bodies()), Some((1, long[1].len())));
        assert_eq!(end_of_whole(bodies().take(1)), None, "the note continues");
        let after = [[framed(b"x", false), framed(b"ab", true)].concat()];
        assert_eq!(end_of_whole(after.iter().map(|body| &body[..])), Some((0, FRAME_BYTES + 1)));
    }
}
