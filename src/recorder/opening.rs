//! Opens and closes the file of a tape, as the options of the recording say.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    folding,
    in_file::InFile,
    keeper::Keeper,
    recording::Recording,
    shared::{OpenFile, Shared},
    tape::Tape,
};
use crate::{
    process::{fork, notice},
    stack::AskLater,
    tape::{Beginning, Note, TapeFile},
};
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::{DeviceId, Error, Result, SettingsReport};

/// Opens the file of the options, keeps it open if it is, and closes another one. A file that cannot be opened is
/// reported on standard error; `None` if nothing is recorded without it.
pub(super) fn choose(shared: &Arc<Shared>, history: &Recording, has_gaps: bool) -> Option<()> {
    // Relaxed: a thread that reads it late records a little in memory.
    shared.is_on_tape_alone.store(history.is_on_tape_alone(), Ordering::Relaxed);
    let mut open = lock(&shared.file);
    let path = history.tape_path();
    if open.as_ref().map(|open| open.file.path()) != path {
        if let Some(OpenFile { file, keeper }) = open.take() {
            close(shared, &file);
            keeper.wake();
        }
        *open = path.and_then(|path| match create(shared, path, history) {
            Ok(opened) => Some(opened),
            Err(error) => {
                report(&error, history.is_on_tape_alone());
                None
            }
        });
        if open.is_none() && history.is_on_tape_alone() {
            return None;
        }
    }
    if let Some(OpenFile { file, .. }) = &*open {
        file.note(&Note::Recording(history.to_note(has_gaps)));
        file.keep_annotations(history.capacity());
    }
    Some(())
}

/// Reports that there is no file; of processes that have nothing without it the first alone, and not its children too.
fn report(error: &Error, is_on_tape_alone: bool) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !is_on_tape_alone {
        let rest = "recording continues in memory, where a crash loses it";
        notice::print(&format!("there is no tape: {error}; {rest}"));
    // Relaxed: one line too many is no harm.
    } else if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        let process = std::process::id();
        notice::print(&format!(
            "process {process} is not recorded, nor its children: there is no tape: {error}"
        ));
    }
}

/// Lets a device's tape write into the file, if one is open.
pub(super) fn begin(shared: &Shared, open: Option<&OpenFile>, device: DeviceId, tape: &Tape) {
    if let Some(OpenFile { file, keeper }) = open {
        let agreement = if keeper.is_elsewhere() { file.offer(device) } else { None };
        let in_file = InFile::new(file.clone(), device, keeper.clone(), agreement);
        tape.set_file(Some(in_file), shared.clock.now());
    }
}

/// Returns what a tape's file says of settings.
pub(super) fn settings_note(settings: &SettingsReport) -> Note {
    let SettingsReport {
        conf,
        max_split_bytes,
        garbage_collection_threshold,
        expandable_segments,
        release_lock_on_device_alloc,
        roundup_power2_divisions,
    } = settings;
    let divisions: Vec<String> = roundup_power2_divisions.iter().map(u32::to_string).collect();
    let pairs = [
        ("conf", conf.clone()),
        ("max_split_bytes", max_split_bytes.map_or_else(String::new, |bytes| bytes.to_string())),
        ("garbage_collection_threshold", garbage_collection_threshold.to_string()),
        ("expandable_segments", expandable_segments.to_string()),
        ("release_lock_on_device_alloc", release_lock_on_device_alloc.to_string()),
        ("roundup_power2_divisions", divisions.join(",")),
    ];
    Note::Settings(pairs.map(|(key, value)| (key.to_owned(), value)).into())
}

/// Returns the settings of a note; what is missing has its default.
pub(crate) fn settings_of(pairs: &[(String, String)]) -> SettingsReport {
    let value = |key: &str| pairs.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value);
    let mut roundup_power2_divisions = [0; 16];
    for (place, division) in
        roundup_power2_divisions.iter_mut().zip(value("roundup_power2_divisions").split(','))
    {
        *place = division.parse().unwrap_or(0);
    }
    SettingsReport {
        conf: value("conf").to_owned(),
        max_split_bytes: value("max_split_bytes").parse().ok(),
        garbage_collection_threshold: value("garbage_collection_threshold").parse().unwrap_or(0.0),
        expandable_segments: value("expandable_segments") == "true",
        release_lock_on_device_alloc: value("release_lock_on_device_alloc") == "true",
        roundup_power2_divisions,
    }
}

fn create(shared: &Arc<Shared>, path: &Path, history: &Recording) -> Result<OpenFile> {
    let is_kept_elsewhere = history.is_kept_elsewhere();
    let (start_us, ns_of_ticks) = shared.clock.beginning();
    let file = Arc::new(TapeFile::create(path, Beginning { start_us, ns_of_ticks })?);
    if history.is_on_tape_alone() {
        file.set_alone();
    }
    if is_kept_elsewhere {
        file.map_ahead();
    }
    fork::register(fork::Level::Recorder, &file);
    let keeper = Keeper::new(&file, is_kept_elsewhere, folding::duties(shared));
    lock(&shared.scopes).set_file(Some(file.clone()));
    lock(&shared.contexts).set_file(Some(file.clone()));
    let later = keeper.clone();
    shared.stacks.set_file(Some((file.clone(), AskLater(Arc::new(move || later.name_words())))));
    lock(&shared.usage).set_file(Some(file.clone()));
    for annotation in lock(&shared.annotations).iter() {
        file.annotate(&annotation.to_note());
    }
    let opened = OpenFile { file, keeper };
    // The last, because what events refer to comes before them.
    for (device, tape) in lock(shared.switch.tapes()).iter() {
        begin(shared, Some(&opened), *device, tape);
    }
    Ok(opened)
}

/// Closes a file, which keeps what it has.
fn close(shared: &Shared, file: &TapeFile) {
    file.close();
    for (_, tape) in lock(shared.switch.tapes()).iter() {
        tape.set_file(None, shared.clock.now());
    }
    lock(&shared.scopes).set_file(None);
    lock(&shared.contexts).set_file(None);
    shared.stacks.set_file(None);
    lock(&shared.usage).set_file(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_equal() {
        let settings = SettingsReport {
            conf: "expandable_segments:True".into(),
            max_split_bytes: Some(20),
            garbage_collection_threshold: 0.8,
            expandable_segments: true,
            release_lock_on_device_alloc: true,
            roundup_power2_divisions: std::array::from_fn(|power| power as u32),
        };
        for settings in [settings, SettingsReport::default()] {
            let Note::Settings(pairs) = settings_note(&settings) else { panic!() };
            assert_eq!(settings_of(&pairs), settings);
        }
    }
}
