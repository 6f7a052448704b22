//! `memreel stats`: how the segments are filled.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::{FreeBytes, PAGE_BYTES, SegmentStats, stats};

use super::pytorch::TorchSize;
use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_file},
    options::Input,
    text::{Page, count, print_line},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel stats` prints the same output as PyTorch's `_memory_viz.py stats`, byte
for byte, file by file.

Examples:
  memreel stats snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let input = &options.input;
    each_file(&input.files, opener, |opened| {
        let device = opened.one_device(input.device)?;
        let stats = stats(&opened.snapshot, device);
        if input.json {
            print_line(&opened.name, device, &stats, out)?;
        } else {
            print(&stats, out)?;
        }
        if stats.n_not_drawn > 0 {
            // Standard output is the tool's own text.
            let segments = count(stats.n_not_drawn, "segment");
            eprintln!(
                "memreel: note: {}: {segments} not drawn; all together have more than 20 TiB",
                opened.name
            );
        }
        Ok(Exit::Fine)
    })
}

fn print(stats: &SegmentStats, out: &mut Page) -> io::Result<()> {
    let page = TorchSize::new(PAGE_BYTES);
    writeln!(out, "Summary of segments >= {page} in size")?;
    for map in &stats.segments {
        let stream = if map.stream.0 == 0 { String::new() } else { format!(" stream_{}", map.stream) };
        let (size, free) = (TorchSize::new(map.bytes), free(map.free));
        let pages = map.pages.as_deref().unwrap_or_default();
        writeln!(out, "[{pages}] {size} allocated, {free} free{stream}")?;
    }
    writeln!(out, "segments: {}", stats.n_segments)?;
    writeln!(out, "total_reserved: {}", TorchSize::from_sum(stats.reserved_bytes))?;
    writeln!(out, "total_allocated: {}", TorchSize::from_sum(stats.allocated_bytes))?;
    writeln!(out, "total_free: {}", free(stats.free))?;
    // The tool's own text, which scripts may search for.
    write!(
        out,
        "\nLegend:\n    [a     ] - a segment in the allocator\n     ^-- a page {page} of memory in the segment\n    \
         a-z: pages filled with a single block's content\n    ' ': page is completely free\n    \
         *: page if completely full with multiple blocks\n    \
         0-9: page is partially full with tensors of multiple blocks (9 == 90% full)\n    \
         (X% internal) - of the free memory, X% is free because we rounded the size of the allocation.\n\n"
    )
}

fn free(free: FreeBytes) -> String {
    let share =
        free.internal_percent().map(|percent| format!(" ({percent:.1}% internal)")).unwrap_or_default();
    format!("{}{share}", TorchSize::from_sum(free.bytes()))
}
