//! A module's file and debug files, open while some of its addresses are named.
//!
//! Files are mapped, and line tables are read where they are needed, so memory is proportional to the units that
//! contain the addresses. Nothing in a file is trusted: unreadable parts are skipped, and names come from what remains
//! (functions without lines, then the module and an offset).
#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use addr2line::{Context, FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, EndianSlice, NativeEndian};
use object::{CompressionFormat, Object, ObjectSection, ObjectSegment};

use super::{
    super::modules::{Fingerprint, Module},
    debug_file::{self, Arena},
    symbol_table,
};

/// The most debug sections that are read, 4 GiB: beyond that, the tables of their units alone would take too much time
/// and memory. A module with more has functions without lines.
const MAX_DEBUG_BYTES: u64 = 4 << 30;
/// A compressed section that claims to unpack to more than this multiple of its size is skipped. Real ones unpack to 2
/// to 20 times their size.
const MAX_UNPACKING: u64 = 100;

type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// One call in the debug information; it has no function where only the line is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Call<'a> {
    pub(super) function: Option<&'a [u8]>,
    pub(super) filename: Option<Arc<str>>,
    pub(super) line: u32,
}

/// What is known about one address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place<'a> {
    /// Innermost first; empty where nothing is known.
    pub(super) calls: Vec<Call<'a>>,
    /// Whether this is the code through which a signal handler returns to the kernel: neither it nor the next frame was
    /// reached by a call.
    pub(super) is_trampoline: bool,
}

/// An address in a module's file: the byte to look up, and whether it is one before the captured address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Probe {
    pub(super) offset: u64,
    pub(super) is_return: bool,
}

/// Returns the calls at each probe. `share` returns the same text for equal ones.
pub(super) fn look_up<'a>(
    module: &Module,
    probes: &[Probe],
    arena: &'a Arena,
    share: &mut dyn FnMut(&str) -> Arc<str>,
) -> Vec<Place<'a>> {
    let mut places = vec![Place::default(); probes.len()];
    let Some(image) = Image::open(module, arena) else { return places };
    let mut offsets = Vec::with_capacity(probes.len());
    for (probe, place) in probes.iter().zip(&mut places) {
        place.is_trampoline = probe.is_return && image.is_trampoline(probe.offset + 1);
        let offset = probe.offset + u64::from(place.is_trampoline);
        place.calls = image.calls(offset, share);
        offsets.push(offset);
    }
    image.add_symbols(&offsets, &mut places);
    places
}

struct Image<'a> {
    file: object::File<'a>,
    debug: Option<object::File<'a>>,
    context: Option<Context<Slice<'a>>>,
    package: Option<DwarfPackage<Slice<'a>>>,
    arena: &'a Arena,
}

impl<'a> Image<'a> {
    /// Opens a module; none if the file is gone or is not the build that was loaded.
    fn open(module: &Module, arena: &'a Arena) -> Option<Image<'a>> {
        // The vDSO has a name, but no file.
        let path = Some(&module.path).filter(|path| path.has_root())?;
        let data = arena.map(path)?;
        if Fingerprint::of_file(data)? != module.fingerprint {
            return None;
        }
        let file = debug_file::parse(data)?;
        let (debug, supplement) = match debug_file::separate(path, &file, arena) {
            Some((place, debug)) => {
                let supplement = debug_file::supplement(&place, &debug, arena);
                (Some(debug), supplement)
            }
            None => (None, None),
        };
        let context = context(debug.as_ref().unwrap_or(&file), supplement.as_ref(), arena);
        let package = package(path, arena);
        Some(Image { file, debug, context, package, arena })
    }

    fn calls(&self, offset: u64, share: &mut dyn FnMut(&str) -> Arc<str>) -> Vec<Call<'a>> {
        let mut calls = Vec::new();
        let Some(mut frames) = self.frames(offset) else { return calls };
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location.as_ref();
            calls.push(Call {
                function: frame.function.map(|function| function.name.slice()),
                filename: location.and_then(|location| location.file).map(&mut *share),
                line: location.and_then(|location| location.line).unwrap_or(0),
            });
        }
        calls
    }

    fn frames(&self, offset: u64) -> Option<FrameIter<'_, Slice<'a>>> {
        let mut result = self.context.as_ref()?.find_frames(offset);
        loop {
            match result {
                LookupResult::Output(frames) => return frames.ok(),
                LookupResult::Load { load, continuation } => {
                    result = continuation.resume(self.split_unit(load))
                }
            }
        }
    }

    /// Returns the rest of a unit whose debug information was split off: from the package next to the program, or from
    /// its own object file.
    fn split_unit(&self, load: SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let folder = load.comp_dir.map_or(Path::new(""), |folder| debug_file::path_of(folder.slice()));
        let path = folder.join(debug_file::path_of(load.path?.slice()));
        let file = debug_file::parse(self.arena.map(&path)?)?;
        let mut dwarf = Dwarf::load(|id| Ok::<_, ()>(optional(&file, id.dwo_name(), self.arena))).ok()?;
        let header = dwarf.units().next().ok()??;
        if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        Some(Arc::new(dwarf))
    }

    /// Names the addresses for which the debug information has no function.
    fn add_symbols(&self, offsets: &[u64], places: &mut [Place<'a>]) {
        let is_unnamed = |place: &Place| place.calls.iter().all(|call| call.function.is_none());
        let mut unnamed: Vec<usize> = (0..places.len()).filter(|index| is_unnamed(&places[*index])).collect();
        unnamed.sort_unstable_by_key(|index| offsets[*index]);
        if unnamed.is_empty() {
            return;
        }
        let wanted: Vec<u64> = unnamed.iter().map(|index| offsets[*index]).collect();
        let mut names = symbol_table::names(self.debug.as_ref().unwrap_or(&self.file), &wanted);
        if self.debug.is_some() && names.iter().any(Option::is_none) {
            let own = symbol_table::names(&self.file, &wanted);
            names.iter_mut().zip(own).for_each(|(name, own)| *name = name.or(own));
        }
        for (index, name) in unnamed.into_iter().zip(names) {
            let calls = &mut places[index].calls;
            if name.is_some() && calls.is_empty() {
                calls.push(Call::default());
            }
            calls.iter_mut().for_each(|call| call.function = name);
        }
    }

    /// Returns whether the code at an address is `rt_sigreturn`: `mov $15, %rax; syscall`, by which every unwinder
    /// recognises it.
    fn is_trampoline(&self, offset: u64) -> bool {
        const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        let bytes = |segment: object::Segment<'a, '_>| segment.data_range(offset, CODE.len() as u64).ok()?;
        cfg!(target_arch = "x86_64") && self.file.segments().find_map(bytes) == Some(&CODE)
    }
}

fn context<'a>(
    file: &object::File<'a>,
    supplement: Option<&object::File<'a>>,
    arena: &'a Arena,
) -> Option<Context<Slice<'a>>> {
    let is_debug =
        |section: &object::Section| section.name_bytes().is_ok_and(|name| name.starts_with(b".debug_"));
    let bytes: u64 =
        file.sections().filter(is_debug).fold(0, |sum, section| sum.saturating_add(section.size()));
    if bytes > MAX_DEBUG_BYTES {
        return None;
    }
    let mut dwarf = Dwarf::load(|id| Ok::<_, ()>(section(file, id.name(), arena))).ok()?;
    if let Some(supplement) = supplement {
        dwarf.load_sup(|id| Ok::<_, ()>(section(supplement, id.name(), arena))).ok()?;
    }
    Context::from_dwarf(dwarf).ok()
}

fn package<'a>(path: &Path, arena: &'a Arena) -> Option<DwarfPackage<Slice<'a>>> {
    let file = debug_file::package(path, arena)?;
    let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(optional(&file, id.dwo_name(), arena));
    DwarfPackage::load(load, Slice::default()).ok()
}

fn optional<'a>(file: &object::File<'a>, name: Option<&str>, arena: &'a Arena) -> Slice<'a> {
    name.map_or(Slice::default(), |name| section(file, name, arena))
}

/// Returns a section, unpacked if it is compressed; empty if it is missing or cannot be unpacked.
fn section<'a>(file: &object::File<'a>, name: &str, arena: &'a Arena) -> Slice<'a> {
    let data = file.section_by_name(name).and_then(|section| section.compressed_data().ok());
    let bytes = data.and_then(|data| match data.format {
        CompressionFormat::None => Some(data.data),
        _ => {
            let most = (data.data.len() as u64).saturating_mul(MAX_UNPACKING).min(MAX_DEBUG_BYTES);
            let unpacked = (data.uncompressed_size <= most).then(|| data.decompress().ok())??;
            Some(arena.keep(unpacked.into_owned()))
        }
    });
    EndianSlice::new(bytes.unwrap_or_default(), NativeEndian)
}
