//! Reads the resident memory of a process from the process that keeps its tape: reading opens files, which a program
//! may have forbidden itself.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    process::{
        memory::{self, Known},
        own_maps,
    },
    recorder::{Clock, Ticks, Usage},
    tape::{Beginning, TapeFile},
};
use memreel_snapshot::words::{DeviceId, ResidentReport};

/// The least time between two looks, and as a multiple of the time the last one took: the kernel locks the process's
/// address space during parts of a look.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_BY_LOOK: u32 = 50;

/// The same for a process that is larger than at any earlier look: the highest look should be near the peak.
const PEAK_INTERVAL: Duration = Duration::from_millis(100);
const PEAK_INTERVAL_BY_LOOK: u32 = 10;

/// A new peak is at least one part in this many above the last one.
const PEAK_PARTS: u64 = 100;

/// Reads the resident memory of a tape's process and writes it into the tape. Sixteen reports are kept for each
/// process, always with the highest and the last.
///
/// ```
/// use memreel::{DeviceId, Recovered, TapeKeeper, integrate::MallocReports};
/// use memreel::recorder::{Recorder, Recording};
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run.tape");
/// // In the process that records its heap:
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all().tape(&path).kept_elsewhere());
/// let heap = MallocReports::connect(&recorder, DeviceId(0)).unwrap();
/// heap.allocated(0x1000, 64);
/// // In another process, some times a second:
/// let keeper = TapeKeeper::attach(&path)?;
/// let mut onlooker = keeper.onlooker();
/// std::thread::sleep(std::time::Duration::from_millis(150));
/// onlooker.look();
/// # if cfg!(target_os = "linux") {
/// assert!(Recovered::read(&path)?.snapshot().resident()[0].resident_bytes > 1 << 20);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Onlooker {
    file: Arc<TapeFile>,
    usage: Usage,
    /// The clock of this process, and the other process's ticks when this one started.
    clock: Clock,
    begun: u64,
    process: Option<PathBuf>,
    /// The time of the last look and how long it took; at first, the time when the process was found.
    last: (Instant, Duration),
    highest_bytes: u64,
}

impl Onlooker {
    pub(super) fn of(file: &Arc<TapeFile>) -> Onlooker {
        let mut usage = Usage::default();
        usage.set_file(Some(file.clone()));
        let clock = Clock::start();
        Onlooker {
            begun: ticks_since(file.beginning()),
            file: file.clone(),
            usage,
            clock,
            process: None,
            last: (Instant::now(), Duration::ZERO),
            highest_bytes: 0,
        }
    }

    /// Looks, if that is due: each second, and sooner after the process has grown. Nothing happens if its heap is not
    /// recorded, and once it has ended or runs another program.
    pub fn look(&mut self) {
        if let Some((device, recorder_bytes)) = self.file.heap()
            && self.is_due()
        {
            let begun = Instant::now();
            self.look_at(device, recorder_bytes);
            self.last = (begun, begun.elapsed());
        }
    }

    fn is_due(&mut self) -> bool {
        if !self.file.is_open() {
            return false;
        }
        let (since, took) = (self.last.0.elapsed(), self.last.1);
        if since >= INTERVAL.max(took * INTERVAL_BY_LOOK) {
            return true;
        }
        let may_be_peak = since >= PEAK_INTERVAL.max(took * PEAK_INTERVAL_BY_LOOK);
        may_be_peak
            && self.resident_bytes() > self.highest_bytes.saturating_add(self.highest_bytes / PEAK_PARTS)
    }

    fn resident_bytes(&mut self) -> u64 {
        if self.process.is_none() {
            self.process = self.file.process_folder();
        }
        self.process.as_deref().and_then(|process| memory::resident_bytes(process).ok()).unwrap_or(0)
    }

    /// Reads the memory of the process, whose heap is this device.
    fn look_at(&mut self, device: DeviceId, recorder_bytes: u64) -> Option<()> {
        // Since the last look, its PID may have been reused.
        self.process = self.file.process_folder();
        let tape = self.file.path();
        // The kernel reports paths without links.
        let folder = tape.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let folder = folder.as_deref().and_then(Path::to_str).map(str::to_owned);
        let process = self.process.as_deref()?;
        let own_maps = own_maps::ranges_in(process, self.file.own_maps());
        let known = Known { own_folders: folder.into_iter().collect(), own_maps, ..Known::default() };
        let seen = memory::look(process, &known).ok()?;
        // A process that runs another program now no longer maps the tape. In another root, the tape has another path.
        let name = tape.file_name()?.to_str()?;
        if !seen.areas.iter().any(|area| area.name.rsplit('/').next() == Some(name)) {
            return None;
        }
        self.highest_bytes = self.highest_bytes.max(seen.resident_bytes);
        let at = Ticks(self.begun + self.clock.now().0);
        self.usage.push_resident(at, ResidentReport { device, recorder_bytes, ..seen });
        Some(())
    }
}

/// Returns the ticks from the start of a recording until now.
fn ticks_since(Beginning { start_us, ns_of_ticks }: Beginning) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let elapsed_ns = now.as_nanos().saturating_sub(u128::from(start_us) * 1000);
    u64::try_from((elapsed_ns << 30) / u128::from(ns_of_ticks.max(1))).unwrap_or(0)
}
