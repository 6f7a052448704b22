//! The options of PyTorch's allocator: since which release, under which variable, and where they have an effect. Every
//! advised line of settings comes from here, so that it works on the user's machine (docs/caching-allocator.md, section
//! 8).

use super::release::Releases;
use crate::model::{Snapshot, Value};

/// An option of PyTorch's CUDA caching allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AllocatorOption {
    /// Its name.
    pub name: &'static str,
    /// The first release that accepts it, as the number after `2.`. Earlier releases reject it.
    pub since: u8,
    /// Whether it has an effect on Windows.
    pub is_on_windows: bool,
}

const fn option(name: &'static str, since: u8) -> AllocatorOption {
    AllocatorOption { name, since, is_on_windows: true }
}

/// The options, with the first release for which each is known.
pub const ALLOCATOR_OPTIONS: [AllocatorOption; 21] = [
    option("backend", 0),
    option("max_split_size_mb", 0),
    option("garbage_collection_threshold", 0),
    option("roundup_power2_divisions", 0),
    AllocatorOption { is_on_windows: false, ..option("expandable_segments", 1) },
    option("release_lock_on_cudamalloc", 2),
    option("release_lock_on_hipmalloc", 2),
    option("pinned_use_cuda_host_register", 2),
    option("pinned_num_register_threads", 2),
    option("max_non_split_rounding_mb", 6),
    option("pinned_use_background_threads", 6),
    option("graph_capture_record_stream_reuse", 9),
    option("pinned_reserve_segment_size_mb", 10),
    option("per_process_memory_fraction", 11),
    option("large_segment_size_mb", 11),
    option("pinned_max_round_threshold_mb", 12),
    option("pinned_max_cached_size_mb", 12),
    option("pinned_free_catch_all", 14),
    option("throw_on_cudamalloc_oom", 14),
    option("expandable_segments_reserve", 15),
    option("expandable_segments_reserve_by_class", 15),
];

/// The variable that every release reads; deprecated, but wins if both are set.
const OLD: &str = "PYTORCH_CUDA_ALLOC_CONF";

/// The variable since 2.8. It has all options since 2.10: 2.9.1 ignores `expandable_segments` in it.
const NEW: &str = "PYTORCH_ALLOC_CONF";
const NEW_SINCE: u8 = 10;

/// The program that wrote a snapshot, as far as the snapshot shows it, and that will read settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingsReader {
    /// PyTorch on CUDA or HIP, in one of these releases.
    Torch {
        /// The releases.
        releases: Releases,
        /// Whether it runs on Windows.
        is_windows: bool,
    },
    /// A PyTorch about which nothing else is known: `memreel record` recorded it.
    UnknownTorch,
    /// memreel's own allocator, which accepts all options.
    Memreel,
    /// Another program, or PyTorch on another accelerator, with its name if the snapshot shows it: no option is known
    /// to have an effect.
    Other(Option<&'static str>),
}

impl SettingsReader {
    /// Determines what wrote a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> SettingsReader {
        let has_file = |part: &str| snapshot.stacks.all_frames().any(|frame| frame.filename.contains(part));
        if snapshot.allocator_settings().is_some_and(|settings| settings.get("memreel_version").is_some()) {
            return match has_file("/torch/") || has_file("libtorch") {
                true => SettingsReader::UnknownTorch,
                false => SettingsReader::Memreel,
            };
        }
        let other = other_writer(snapshot);
        match Releases::of(snapshot) {
            Some(releases) if other.is_none() => {
                // An earlier release would have rejected the settings of the run.
                let conf = snapshot
                    .allocator_settings()
                    .and_then(|settings| settings.get("PYTORCH_CUDA_ALLOC_CONF"));
                let since = conf.and_then(Value::as_text).and_then(|conf| since(conf)).unwrap_or(0);
                let since = since.min(releases.last.unwrap_or(u8::MAX));
                let releases = Releases { first: releases.first.max(since), ..releases };
                SettingsReader::Torch { releases, is_windows: has_file(":\\") }
            }
            _ => SettingsReader::Other(other),
        }
    }

    /// Returns whether it accepts every option of a settings text, and each has an effect. All accept the empty text.
    #[must_use]
    pub fn takes(&self, conf: &str) -> bool {
        let (first, is_windows) = match self {
            SettingsReader::Torch { releases, is_windows } => (releases.first, *is_windows),
            // A later option may be rejected.
            SettingsReader::UnknownTorch => (2, false),
            SettingsReader::Memreel => (u8::MAX, false),
            SettingsReader::Other(_) => return conf.is_empty(),
        };
        names(conf).all(|name| {
            let option = ALLOCATOR_OPTIONS.iter().find(|option| option.name == name);
            option.is_some_and(|option| option.since <= first && (option.is_on_windows || !is_windows))
        })
    }

    /// Returns the variable that it reads, or both names if the release decides.
    #[must_use]
    pub fn variable(&self) -> &'static str {
        match self {
            SettingsReader::Torch { releases, .. } if releases.first < NEW_SINCE => OLD,
            SettingsReader::UnknownTorch => {
                "PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF from PyTorch 2.10 on)"
            }
            _ => NEW,
        }
    }

    /// Returns the line that sets it, to be copied; `None` if an option would be rejected or would have no effect.
    #[must_use]
    pub fn line(&self, conf: &str) -> Option<String> {
        if conf.is_empty() || !self.takes(conf) {
            return None;
        }
        Some(match self {
            SettingsReader::UnknownTorch => format!("{OLD}={conf} ({NEW}={conf} from PyTorch 2.10 on)"),
            _ => format!("{}={conf}", self.variable()),
        })
    }
}

/// Returns the line for a settings text whose options came with a release that has the new variable, with that release.
#[must_use]
pub fn line_since(conf: &str) -> String {
    let since = since(conf).unwrap_or(NEW_SINCE).max(NEW_SINCE);
    format!("{NEW}={conf} (PyTorch 2.{since} and later)")
}

/// Returns the first release that accepts a settings text, as far as its options are known.
fn since(conf: &str) -> Option<u8> {
    let known = names(conf).filter_map(|name| ALLOCATOR_OPTIONS.iter().find(|option| option.name == name));
    known.map(|option| option.since).max()
}

/// Returns the options of a settings text, each with its value. A list in brackets is a value.
pub fn options(conf: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let options = conf.split(move |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth <= 0
    });
    options.map(str::trim).filter(|option| !option.is_empty())
}

/// Returns the number of options of a settings text.
pub(crate) fn n_options(conf: &str) -> usize {
    options(conf).count()
}

/// Returns the names of the options of a settings text.
fn names(conf: &str) -> impl Iterator<Item = &str> {
    options(conf).map(name_of).filter(|name| !name.is_empty())
}

fn name_of(option: &str) -> &str {
    option.split(':').next().unwrap_or_default().trim()
}

/// Returns the option of a settings text by which PyTorch itself refuses a request, with its value.
pub(crate) fn limiting_option(conf: &str) -> Option<&str> {
    const LIMITS: [&str; 3] = [
        "per_process_memory_fraction",
        "expandable_segments_reserve_by_class",
        "expandable_segments_reserve",
    ];
    let of = |name: &&str| options(conf).find(|option| name_of(option) == *name);
    LIMITS.iter().find_map(of)
}

/// Returns what wrote a snapshot of an accelerator that is not CUDA's or HIP's: Ascend's frames are in `torch_npu`;
/// MLX's traces have no segments, although blocks are in use at their ends.
fn other_writer(snapshot: &Snapshot) -> Option<&'static str> {
    let is_npu = |text: &str| text.contains("torch_npu") || text.contains("_npu::");
    let mut frames = snapshot.stacks.all_frames();
    if frames.any(|frame| is_npu(&frame.filename) || is_npu(&frame.name)) {
        return Some("torch_npu (Ascend)");
    }
    (snapshot.segments.is_empty() && has_live_blocks(snapshot))
        .then_some("an allocator without segments, perhaps MLX's")
}

fn has_live_blocks(snapshot: &Snapshot) -> bool {
    use crate::words::Action::{Alloc, FreeCompleted};
    snapshot.device_traces.iter().any(|trace| {
        let count = |action| trace.iter().filter(|entry| entry.action == Some(action)).count();
        count(Alloc) > count(FreeCompleted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torch(first: u8, last: u8, is_windows: bool) -> SettingsReader {
        SettingsReader::Torch { releases: Releases { first, last: Some(last) }, is_windows }
    }

    #[test]
    fn a_line_acts_on_the_release_that_wrote_the_file() {
        let expandable = "expandable_segments:True";
        let line = |reader: SettingsReader, conf| reader.line(conf);
        for (reader, variable) in
            [(torch(5, 7, false), OLD), (torch(8, 8, false), OLD), (torch(10, 11, false), NEW)]
        {
            assert_eq!(line(reader, expandable), Some(format!("{variable}={expandable}")));
        }
        // An option that a release rejects, or that has no effect there, is not advised.
        assert_eq!(line(torch(5, 7, false), "large_segment_size_mb:64"), None);
        assert_eq!(line(torch(10, 11, false), "large_segment_size_mb:64"), None, "2.10 may have written it");
        assert!(line(torch(11, 11, false), "large_segment_size_mb:64").is_some());
        assert_eq!(line(torch(11, 11, true), expandable), None);
        assert_eq!(
            line(torch(11, 11, true), "max_split_size_mb:64").as_deref(),
            Some("PYTORCH_ALLOC_CONF=max_split_size_mb:64")
        );
        assert_eq!(line(SettingsReader::Other(None), "max_split_size_mb:64"), None);
        assert_eq!(
            line(SettingsReader::Memreel, expandable).as_deref(),
            Some("PYTORCH_ALLOC_CONF=expandable_segments:True")
        );
        let both = line(SettingsReader::UnknownTorch, expandable).unwrap();
        assert!(
            both.contains(&format!("{OLD}={expandable}")) && both.contains(&format!("{NEW}={expandable}")),
            "{both}"
        );
        // A list in brackets is one value.
        assert!(torch(5, 7, false).takes("roundup_power2_divisions:[64:2,>:8],max_split_size_mb:64"));
        assert!(!torch(5, 7, false).takes("unknown:1") && torch(5, 7, false).takes(""));
        assert_eq!(
            line_since("pinned_max_cached_size_mb:1"),
            "PYTORCH_ALLOC_CONF=pinned_max_cached_size_mb:1 (PyTorch 2.12 and later)"
        );
    }
}
