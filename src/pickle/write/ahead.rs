//! A file is written by a thread of its own while the next bytes are made.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, Write},
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

/// As much as comes at once, and some more.
const BUFFER_BYTES: usize = 80 << 10;

/// Buffers that may wait for the file. Each is as long as what is written at once.
const N_WAITING: usize = 2;

/// Calls `make` with a writer into a file, whose bytes another thread hands to the system meanwhile.
/// Where no thread can be had, as in a process without memory, it is the file itself.
///
/// Copying into the system's cache takes as long as making the bytes.
///
/// # Errors
/// The file's first error, or else what `make` gives.
pub(in crate::pickle) fn write_ahead(
    file: &File,
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (full, todo) = sync_channel(N_WAITING);
    let (done, free) = channel();
    let mut first = Vec::new();
    if first.try_reserve(BUFFER_BYTES).is_err() || done.send(first).is_err() {
        return make(&mut &*file);
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("memreel-file".into());
        let Ok(thread) = thread.spawn_scoped(scope, move || drain(file, &todo, &done)) else {
            return make(&mut &*file);
        };
        // Gone before the thread is waited for: that is how it knows that nothing follows.
        let made = make(&mut Ahead { full, free });
        let written = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(made)
    })
}

/// Writes buffers until there are no more, and gives each back.
fn drain(mut file: &File, todo: &Receiver<Vec<u8>>, done: &Sender<Vec<u8>>) -> io::Result<()> {
    for bytes in todo {
        file.write_all(&bytes)?;
        // Nobody takes the last ones back.
        let _ = done.send(bytes);
    }
    Ok(())
}

/// The near end: bytes are copied, and sent when the thread has room.
struct Ahead {
    full: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
}

impl Ahead {
    /// One that came back, or a new one, or where there is no memory the next that comes back: there
    /// is one at least.
    fn buffer(&self) -> io::Result<Vec<u8>> {
        if let Ok(buffer) = self.free.try_recv() {
            return Ok(buffer);
        }
        let mut buffer = Vec::new();
        match buffer.try_reserve(BUFFER_BYTES) {
            Ok(()) => Ok(buffer),
            Err(_) => self.free.recv().map_err(|_| io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for Ahead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = self.buffer()?;
        buffer.clear();
        let n_bytes = bytes.len().min(BUFFER_BYTES);
        buffer.extend_from_slice(&bytes[..n_bytes]);
        // The thread stops at an error only, and that is what `write_ahead` gives.
        self.full.send(buffer).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_every_byte_in_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let parts: Vec<Vec<u8>> = (0..200_u32).map(|n| n.to_le_bytes().repeat(1 + n as usize * 7)).collect();
        write_ahead(file.as_file(), |sink| parts.iter().try_for_each(|part| sink.write_all(part))).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), parts.concat());
    }

    #[test]
    fn the_files_error_is_told_and_not_that_nobody_listens() {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let made = write_ahead(&full, |sink| (0..100).try_for_each(|_| sink.write_all(&[7; 4096])));
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let other = write_ahead(&full, |_| Err(io::ErrorKind::InvalidData.into()));
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
