//! Recognises the forms of messages: how each starts, and which PyTorch releases print it.

use std::sync::LazyLock;

use regex::Regex;

use super::message::Program;

/// The start of a message.
static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?P<torch>\b[A-Z]{2,8} out of memory\b)",
        r"|(?P<mps>MPS backend out of memory \()",
        r"|(?P<tensorflow>OOM when allocating tensor with shape ?\[)",
        r"|(?P<xla>RESOURCE_EXHAUSTED: )",
        r"|(?P<cupy>[Oo]ut of memory (?:allocating|to allocate) [0-9,]+ bytes \()",
        r"|(?P<ggml>allocating [0-9.]+ MiB on device [0-9]+: [A-Za-z]+ failed|failed to allocate \w+ buffer of size [0-9]+)",
        r"|(?P<memreel>out of memory: [0-9.]+ [A-Za-z]+ needs? a segment of )",
    ))
    .expect("a constant")
});

const PROGRAMS: [(&str, Program); 7] = [
    ("torch", Program::Torch),
    ("mps", Program::Mps),
    ("tensorflow", Program::TensorFlow),
    ("xla", Program::Xla),
    ("cupy", Program::CuPy),
    ("ggml", Program::Ggml),
    ("memreel", Program::Memreel),
];

/// Returns where messages start in a line, and their programs.
pub(super) fn beginnings(line: &str) -> Vec<(usize, Program)> {
    let program = |found: &regex::Captures<'_>| {
        PROGRAMS.iter().find(|(name, _)| found.name(name).is_some()).map(|(_, program)| *program)
    };
    BEGIN.captures_iter(line).filter_map(|found| Some((found.get(0)?.start(), program(&found)?))).collect()
}

/// Returns whether a message's text has the last figure that its program prints.
pub(super) fn is_complete(program: Program, text: &str) -> bool {
    let has = |words: &str| text.contains(words);
    match program {
        Program::Torch => has("but unallocated") || has("reserved in total"),
        Program::Memreel => has("but unallocated"),
        Program::Mps => has("Tried to allocate") && has(" pool"),
        Program::CuPy => text.contains(')'),
        Program::TensorFlow => has("by allocator"),
        Program::Xla => has("total allocation:") || has("Peak buffers"),
        Program::Ggml => true,
    }
}

/// Returns the first and the last release, 2.x, that print a message of PyTorch; `None` for the last if later ones
/// print it too. `before` is the text before the message: the name of the error.
pub(super) fn releases(before: &str, text: &str) -> Option<(u8, Option<u8>)> {
    let has = |words: &str| text.contains(words);
    // 2.5 moved the error out of torch.cuda.
    let by_name = match before {
        _ if before.ends_with("torch.cuda.OutOfMemoryError: ") => (0, Some(4)),
        _ if before.ends_with("torch.OutOfMemoryError: ") => (5, None),
        _ => (0, None),
    };
    let by_form = match () {
        () if has("total capacity;") => (0, Some(0)),
        () if has("total capacty of") => (1, Some(1)),
        () if has("expandable_segments_reserve") => (15, None),
        () if has("optimizing-memory-usage-with-pytorch-cuda-alloc-conf") => (11, None),
        () if has("setting PYTORCH_ALLOC_CONF=") => (9, None),
        () if has("setting PYTORCH_CUDA_ALLOC_CONF=") || has("setting PYTORCH_HIP_ALLOC_CONF=") => (2, None),
        () if has("setting max_split_size_mb") => (1, Some(1)),
        () if has("total capacity of") => (2, None),
        () => (0, None),
    };
    let last = [by_name.1, by_form.1].into_iter().flatten().min();
    let first = by_name.0.max(by_form.0);
    let is_known = (first, last) != (0, None) && last.is_none_or(|last| first <= last);
    is_known.then_some((first, last))
}
