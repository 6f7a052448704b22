//! The sources from which a tape is read: its file, or memory that has it mapped.

#[cfg(target_family = "wasm")]
use std::io::{Read, Seek, SeekFrom};
#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;
use std::{
    fs::File,
    io,
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use super::layout::{HEADER_BYTES, STEP_BYTES};

/// Bytes of a tape.
pub(super) trait Source {
    /// Returns the size of the tape in bytes.
    ///
    /// # Errors
    /// The system's errors.
    fn n_bytes(&self) -> io::Result<u64>;

    /// Fills a buffer from an offset on, a multiple of 8; returns how many bytes there were.
    ///
    /// # Errors
    /// The system's errors.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns an offset, `at` or later, before which the tape has only zeros from `at` on.
    fn next_data(&self, at: u64) -> u64 {
        at
    }
}

/// Makes the system read only what is requested of a short tape: most of the tape of each of thousands of short
/// processes is unused.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
pub(super) fn prepare(file: &File) {
    #[cfg(target_os = "linux")]
    if file.metadata().is_ok_and(|found| found.len() <= (HEADER_BYTES + STEP_BYTES) as u64) {
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    }
}

impl Source for File {
    fn n_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = <File as FileExt>::read_at;
        #[cfg(windows)]
        let read = <File as FileExt>::seek_read;
        #[cfg(target_family = "wasm")]
        let read = |mut file: &File, buffer: &mut [u8], at| {
            file.seek(SeekFrom::Start(at))?;
            file.read(buffer)
        };
        let mut n_bytes = 0;
        while n_bytes < buffer.len() {
            match read(self, &mut buffer[n_bytes..], at + n_bytes as u64) {
                Ok(0) => break,
                Ok(n) => n_bytes += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(n_bytes)
    }

    /// For a step that was reserved but not written, the system would create pages of zeros.
    #[cfg(target_os = "linux")]
    fn next_data(&self, at: u64) -> u64 {
        use rustix::{
            fs::{SeekFrom, seek},
            io::Errno,
        };

        match seek(self, SeekFrom::Data(at)) {
            Ok(next) if knows_mapped_pages(self) => next,
            Err(Errno::NXIO) if knows_mapped_pages(self) => u64::MAX,
            _ => at,
        }
    }
}

/// Returns whether a file's system treats a page as data as soon as a process has written to it through a mapping, as
/// ext4, XFS, Btrfs and tmpfs do. Others ask a server that does not have the page yet.
#[cfg(target_os = "linux")]
fn knows_mapped_pages(file: &File) -> bool {
    use rustix::fs::{fstat, fstatfs};

    const DO: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
    /// The last device that was found to do so: the tapes of a run are on one device. Relaxed: it is read alone.
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
    let Ok(found) = fstat(file) else { return false };
    if found.st_dev == LAST.load(Ordering::Relaxed) {
        return true;
    }
    #[allow(clippy::unnecessary_cast, reason = "its type is that of the processor")]
    let does = fstatfs(file).is_ok_and(|found| DO.contains(&(found.f_type as i64)));
    if does {
        LAST.store(found.st_dev, Ordering::Relaxed);
    }
    does
}

/// The steps of a tape that this process has mapped, by their places. Other steps are not read, so their slots count as
/// free.
#[derive(Debug)]
pub(super) struct Memory<'f> {
    steps: Vec<Option<NonNull<u8>>>,
    mapped: PhantomData<&'f ()>,
}

impl Memory<'_> {
    /// # Safety
    /// Each step is mapped, and its file has it, as long as this lives.
    #[cfg(target_os = "linux")]
    pub(super) unsafe fn of(steps: Vec<Option<NonNull<u8>>>) -> Self {
        Memory { steps, mapped: PhantomData }
    }

    /// Returns whether every step of the file is mapped.
    pub(super) fn is_whole(&self) -> bool {
        self.steps.iter().all(Option::is_some)
    }
}

impl Source for Memory<'_> {
    fn n_bytes(&self) -> io::Result<u64> {
        Ok((HEADER_BYTES + self.steps.len() * STEP_BYTES) as u64)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let in_steps = usize::try_from(at).ok().and_then(|at| at.checked_sub(HEADER_BYTES));
        let place = in_steps.map(|at| (at / STEP_BYTES, at % STEP_BYTES));
        let Some((Some(Some(step)), at)) = place.map(|(step, at)| (self.steps.get(step), at)) else {
            return Ok(0);
        };
        // A slot is in one step, and consists of whole words.
        let n_bytes = buffer.len().min(STEP_BYTES - at);
        for (index, part) in buffer[..n_bytes].chunks_mut(size_of::<u64>()).enumerate() {
            // SAFETY: a word of a step that is mapped (`of`), where this process and the keeper write. Words of later reads
            // are not older than words of earlier ones, which `slot` of `contents` relies on.
            let word =
                unsafe { step.add(at).cast::<AtomicU64>().add(index).as_ref() }.load(Ordering::Acquire);
            part.copy_from_slice(&word.to_ne_bytes()[..part.len()]);
        }
        Ok(n_bytes)
    }
}
