//! The recorded run: its setting, its peak and the addresses of its segments.

use crate::allocator::Settings;
use memreel_snapshot::{
    analysis::{SettingsReader, options},
    history::{ByDevice, reserved_at_start, reserved_peak},
    model::{TraceEntry, Value},
    words::{Action, DeviceId},
};

/// The results of the recorded run, which answers are compared with.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    conf: String,
    /// The options of `conf` that the simulated allocator supports and that had an effect.
    usable_conf: String,
    pub(super) settings: Settings,
    pub(super) collects_garbage: bool,
    pub(super) start_bytes: u64,
    /// The most bytes in segments at any time of the history.
    pub reserved_peak_bytes: u64,
    /// The number of segments and ranges of pages that were taken from the device.
    pub num_device_alloc: u64,
    /// The number of segments and ranges of pages that were returned to the device.
    pub num_device_free: u64,
    /// The number of requests that failed.
    pub num_ooms: u64,
    warnings: Vec<String>,
    reader: SettingsReader,
}

impl RecordedRun {
    pub(super) fn new(records: &ByDevice<'_>, device: DeviceId) -> RecordedRun {
        let snapshot = records.snapshot();
        let trace = snapshot.trace(device);
        let setting = |key| records.setting(key);
        let conf = setting("PYTORCH_CUDA_ALLOC_CONF").and_then(Value::as_text).map(|text| text.to_string());
        let conf = conf.unwrap_or_default();
        let (usable_conf, mut warnings) = usable(&conf);
        let is_expandable = expandable_segments_acted(records, device);
        let (usable_conf, difference) = acting(usable_conf, is_expandable);
        warnings.extend(difference);
        let threshold = setting("garbage_collection_threshold");
        let count = |actions: &[Action]| {
            trace.iter().filter(|entry| entry.action.is_some_and(|a| actions.contains(&a))).count() as u64
        };
        let segments = records.segments(device).map(|(_, segment)| segment);
        let start_bytes = reserved_at_start(trace, segments);
        RecordedRun {
            conf,
            settings: usable_conf.parse().unwrap_or_default(),
            usable_conf,
            collects_garbage: matches!(threshold, Some(Value::Float(threshold)) if *threshold > 0.0),
            start_bytes,
            reserved_peak_bytes: reserved_peak(trace, start_bytes),
            num_device_alloc: count(&[Action::SegmentAlloc, Action::SegmentMap]),
            num_device_free: count(&[Action::SegmentFree, Action::SegmentUnmap]),
            num_ooms: count(&[Action::Oom]),
            warnings,
            reader: SettingsReader::of(snapshot),
        }
    }

    /// Returns the settings text of the file; empty if there is none.
    #[must_use]
    pub fn conf(&self) -> &str {
        &self.conf
    }

    /// Returns the options that had an effect, as a settings text: that of the file without the options that a replay
    /// does not support, and with or without expandable segments, as the segments show.
    #[must_use]
    pub fn usable_conf(&self) -> &str {
        &self.usable_conf
    }

    /// Returns the program that read the settings, and would read others.
    #[must_use]
    pub fn reader(&self) -> &SettingsReader {
        &self.reader
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns the options of a recorded text that the parser accepts, and a warning about the others.
fn usable(conf: &str) -> (String, Vec<String>) {
    if conf.parse::<Settings>().is_ok() {
        return (conf.to_owned(), Vec::new());
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        options(conf).partition(|option| option.parse::<Settings>().is_ok());
    let warning =
        format!("the recorded setting has unknown options, which are ignored: {}", unknown.join(","));
    let known = known.join(",");
    (if known.parse::<Settings>().is_ok() { known } else { String::new() }, vec![warning])
}

/// Returns whether a device's memory is in expandable segments: according to the events, otherwise to the setting;
/// `None` if nothing shows it.
fn expandable_segments_acted(records: &ByDevice<'_>, device: DeviceId) -> Option<bool> {
    let trace = records.snapshot().trace(device);
    let has = |action: Action| trace.iter().any(|entry: &TraceEntry| entry.action == Some(action));
    if has(Action::SegmentMap) || has(Action::SegmentUnmap) {
        return Some(true);
    }
    if has(Action::SegmentAlloc) {
        return Some(false);
    }
    match records.setting("expandable_segments") {
        Some(Value::Bool(is_expandable)) => Some(*is_expandable),
        _ => None,
    }
}

/// Returns the settings text that had an effect. PyTorch 2.9.1 ignores `expandable_segments:True` in
/// `PYTORCH_ALLOC_CONF`, and a program can change the option at run time.
fn acting(conf: String, is_expandable: Option<bool>) -> (String, Option<String>) {
    let asked = conf.parse::<Settings>().is_ok_and(|settings| settings.expandable_segments);
    let Some(acted) = is_expandable.filter(|acted| *acted != asked) else { return (conf, None) };
    let is_other = |option: &&str| !option.trim_start().starts_with("expandable_segments:");
    let mut options: Vec<&str> = options(&conf).filter(is_other).collect();
    let warning = if acted {
        options.insert(0, "expandable_segments:True");
        "the run had expandable segments, although its setting does not request them; the recorded setting \
         is replayed with them"
    } else {
        "the setting requests expandable_segments:True, which had no effect: the memory is in ordinary \
         segments \
         (PyTorch 2.9.1 reads the option from PYTORCH_CUDA_ALLOC_CONF only); the recorded setting is replayed \
         without it"
    };
    (options.join(","), Some(warning.to_owned()))
}
