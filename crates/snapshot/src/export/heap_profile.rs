//! Writes what several processes hold at one time as one pprof profile.

use std::io;

use flate2::{Compression, write::GzEncoder};

use super::{heap_part::HeapPart, pprof};

/// Writes a gzipped profile of memory in use, as Go programs serve it at `/debug/pprof/heap`. `time_us` is when that was, in
/// microseconds since the Unix epoch.
///
/// ```
/// use memreel::export::{HeapPart, heap_profile};
/// use memreel::snapshot::Snapshot;
///
/// let snapshot = Snapshot::default();
/// let part = HeapPart { snapshot: &snapshot, held: Vec::new(), labels: vec![("process", "4711".into())] };
/// let mut bytes = Vec::new();
/// heap_profile(&[part], 0, &mut bytes)?;
/// assert!(bytes.starts_with(&[0x1f, 0x8b]), "gzip");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The first error of the sink.
pub fn heap_profile(parts: &[HeapPart<'_>], time_us: u64, sink: &mut impl io::Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(sink, Compression::fast());
    pprof::write_in_use(parts, time_us, &mut packed)?;
    packed.finish().map(|_| ())
}
