//! Recognises other formats by their first bytes, after reading has failed.

#![forbid(unsafe_code)]

use std::str;

/// The first bytes of a format, its name, and what to do.
const KINDS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "compressed by gzip; decompress it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; decompress it first (unzstd)"),
    (b"\xfd7zXZ\0", "compressed by xz; decompress it first (unxz)"),
    (b"BZh", "compressed by bzip2; decompress it first (bunzip2)"),
    (b"PK\x03\x04", "a ZIP archive, as torch.save writes it; give a file written by _dump_snapshot"),
    (
        LEGACY_SAVE,
        "a file of torch.save, as PyTorch before 1.6 wrote it; give a file written by _dump_snapshot",
    ),
    (b"\x89HDF\r\n", "an HDF5 file; give a file written by _dump_snapshot"),
    (b"\x93NUMPY", "a NumPy array; give a file written by _dump_snapshot"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG); give a file written by _dump_snapshot"),
    (b"\xff\xd8\xff", "an image (JPEG); give a file written by _dump_snapshot"),
    (b"%PDF-", "a PDF document; give a file written by _dump_snapshot"),
    (b"SQLite format 3\0", "an SQLite database; give a file written by _dump_snapshot"),
    (b"\x7fELF", "a program or a library; give a file written by _dump_snapshot"),
];

/// Texts of other formats: how each begins, what it is, and what to do.
const TEXTS: &[(&str, &str)] = &[
    ("version https://git-lfs", "a Git LFS pointer; fetch the file itself with: git lfs pull"),
    (
        "|=======",
        "the text of torch.cuda.memory_summary(), which has sums and no blocks; give a file written by _dump_snapshot, after \
         _record_memory_history()",
    ),
    ("heap_v2/", "a jemalloc heap dump as text, without names; convert it with jeprof to a pprof profile"),
    (
        "Thread,Time,Action,Pointer,Size,Stream",
        "a log of RMM's logging adaptor, which has no stacks; record the program with: memreel record -- PROGRAM",
    ),
];

/// A key of torch.cuda.memory_stats(), which is a dictionary of numbers.
const OF_STATS: &str = "allocated_bytes.all.current";
const STATS: &str = "the text of torch.cuda.memory_stats(), which has sums and no blocks; give a file written by _dump_snapshot, after \
                     _record_memory_history()";

/// Returns what a text of another format is, and what to do, by its first bytes; `None` for any other text.
pub(in crate::pickle) fn named_text(bytes: &[u8]) -> Option<&'static str> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT_BYTES)]);
    let text = head.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let known = TEXTS.iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, what)| *what);
    let is_stats = || text.starts_with(['{', 'O']) && text.contains("active.all.") || text.contains(OF_STATS);
    known.or_else(|| is_stats().then_some(STATS))
}

/// The magic number of PyTorch's old format, as a pickle.
const LEGACY_SAVE: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// More bytes would not help to recognise a format.
const LOOKED_AT_BYTES: usize = 4096;

/// Returns the name of a file's format, if its first bytes are not those of a pickle.
pub(super) fn kind(bytes: &[u8]) -> Option<&'static str> {
    if bytes.is_empty() {
        return Some("empty; its writer failed or has not finished");
    }
    let known = KINDS.iter().find(|(beginning, _)| bytes.starts_with(beginning)).map(|(_, what)| *what);
    let known = known.or_else(|| is_safetensors(bytes).then_some(SAFETENSORS));
    known.or_else(|| text(bytes))
}

const SAFETENSORS: &str = "a safetensors file, which holds tensors; give a file written by _dump_snapshot";

/// A safetensors file begins with the length of a JSON header in eight bytes, then the header.
fn is_safetensors(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
    length.is_some_and(|length| (2..bytes.len() as u64).contains(&length)) && bytes[8..].starts_with(b"{")
}

/// Returns the kind of a text. Pickles of protocol 0 are texts too: they end with a full stop, other texts with a line
/// feed.
fn text(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(LOOKED_AT_BYTES)];
    let head = match str::from_utf8(head) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() && head.len() == LOOKED_AT_BYTES => {
            str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    let is_odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}');
    if head.is_empty() || head.contains(is_odd) || bytes.ends_with(b".") {
        return None;
    }
    if let Some(what) = named_text(bytes) {
        return Some(what);
    }
    Some(match head.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with(['{', '[']) {
        true => {
            "a text file, perhaps JSON, which the program `memreel` reads and serde_json reads into a Snapshot"
        }
        false => {
            "a text file; give a file written by _dump_snapshot, or pass the log of a program that ran out of memory to `memreel oom`"
        }
    })
}

/// Returns what a pickle that needs code to be read appears to be.
pub(super) fn hint(bytes: &[u8]) -> &'static str {
    let head = &bytes[..bytes.len().min(LOOKED_AT_BYTES)];
    let has = |name: &[u8]| head.windows(name.len()).any(|part| part == name);
    match [&b"OrderedDict"[..], b"torch._utils", b"numpy"].into_iter().any(has) {
        true => "; it seems to be a checkpoint (a state_dict), not what _dump_snapshot writes",
        false => "",
    }
}
