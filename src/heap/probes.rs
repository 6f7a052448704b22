//! The probes for a profiler outside the process: `otel_memory`, the contract of OpenTelemetry's eBPF profiler (its
//! design document 3, "USDT contract") for an allocator's samples.
//!
//! Unless a profiler is attached, a probe is a load and a branch.

#![forbid(unsafe_code)]

/// Fires for a recorded allocation: its address, its bytes, and the bytes that it stands for.
#[inline(always)]
pub(super) fn allocated(address: u64, bytes: u64, represented_bytes: impl FnOnce() -> u64) {
    probe::probe_lazy!(otel_memory, alloc, address, bytes, represented_bytes());
}

/// Fires before a recorded block is freed.
#[inline(always)]
pub(super) fn freed(address: u64) {
    probe::probe_lazy!(otel_memory, free, address);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use object::{Object, ObjectSection};

    use super::*;

    #[test]
    fn a_profiler_finds_the_probes_in_the_file() {
        allocated(1, 2, || panic!("no profiler is attached"));
        freed(1);
        let program = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*program).unwrap();
        let notes = file.section_by_name(".note.stapsdt").unwrap().uncompressed_data().unwrap();
        let word = |at: usize| u64::from_le_bytes(notes[at..at + 8].try_into().unwrap());
        let size = |at: usize| u32::from_le_bytes(notes[at..at + 4].try_into().unwrap()) as usize;
        let (mut found, mut at) = (Vec::new(), 0);
        while at + 12 < notes.len() {
            let [name_bytes, words_bytes] = [size(at), size(at + 4)].map(|bytes| bytes.next_multiple_of(4));
            let words = at + 12 + name_bytes;
            // The probe's place and a base precede it.
            let semaphore = word(words + 16);
            let texts = String::from_utf8_lossy(&notes[words + 24..words + words_bytes]).into_owned();
            let texts: Vec<&str> = texts.split('\0').collect();
            let n_arguments = texts[2].split_whitespace().count();
            found.push((texts[0].to_owned(), texts[1].to_owned(), n_arguments, semaphore != 0));
            at = words + words_bytes;
        }
        found.sort();
        found.dedup();
        let probe = |name: &str, n_arguments| ("otel_memory".to_owned(), name.to_owned(), n_arguments, true);
        assert_eq!(found, [probe("alloc", 3), probe("free", 1)]);
    }
}
