//! Writes a file on a second thread while the next bytes are created.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

/// The size of a buffer: slightly more than one write of the caller.
const BUFFER_BYTES: usize = 80 << 10;

/// The number of buffers that may wait for the file.
const N_WAITING: usize = 2;

/// Calls `make` with a writer whose bytes another thread writes to `sink` at the same time.
/// Where no thread can be started, as in a process without memory, `make` writes to `sink` itself.
///
/// Copying into the system's cache takes as long as creating the bytes.
///
/// # Errors
/// The first error of `sink`, or else the error of `make`.
pub(in crate::pickle) fn write_ahead<S: Write + Copy + Send>(
    mut sink: S,
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (full, todo) = sync_channel(N_WAITING);
    let (done, free) = channel();
    let mut first = Vec::new();
    if first.try_reserve(BUFFER_BYTES).is_err() || done.send(first).is_err() {
        return make(&mut sink);
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("memreel-file".into());
        let Ok(thread) = thread.spawn_scoped(scope, move || drain(sink, &todo, &done)) else {
            return make(&mut sink);
        };
        // The writer is dropped before the thread is joined, which ends the thread's loop.
        let made = make(&mut Ahead { full, free });
        let written = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(made)
    })
}

/// Writes buffers until there are no more, and returns each to be filled again.
fn drain(mut sink: impl Write, todo: &Receiver<Vec<u8>>, done: &Sender<Vec<u8>>) -> io::Result<()> {
    for bytes in todo {
        sink.write_all(&bytes)?;
        // The last buffers are not needed again.
        let _ = done.send(bytes);
    }
    Ok(())
}

/// The caller's end: bytes are copied, and sent when the thread has room.
struct Ahead {
    full: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
}

impl Ahead {
    /// Returns a buffer that came back, or a new one. If memory is out, waits for the next one that comes back: at
    /// least one exists.
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
        // The thread stops only at an error, which `write_ahead` returns.
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

    /// A file on a full disk.
    #[derive(Clone, Copy)]
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_sinks_error_is_returned_and_not_that_the_thread_has_ended() {
        let made = write_ahead(Full, |sink| (0..100).try_for_each(|_| sink.write_all(&[7; 4096])));
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let other = write_ahead(Full, |_| Err(io::ErrorKind::InvalidData.into()));
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
