//! The table of a device's memory by owners, as text and as lines of `--json`.
//!
//! `memreel owners` prints it of files, and a recording of a program at its end.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        DeviceOwners, HostFigures, MarkedFrame, OwnerRow, RowKind, ShownFrames, base_name, line_since,
    },
    words::{ADDRESS_SPACE_BYTES, usage::HEAP},
};
use serde::Serialize;

use super::{
    bytes::{Bytes, signed},
    clean, count,
    fit::{columns, fill, print_text, shortened},
    owner_stacks::{RowStacks, ShownStack, stacks_of},
    page::Page,
    percent,
    sites::heading,
};

/// The columns of the longest name of an owner that is not shortened.
const MOST_COLUMNS: usize = 24;

/// Advice for less is not worth a line.
pub(crate) const LEAST_ADVICE_BYTES: u64 = 16 << 20;

/// Prints a table for each device of the snapshots. Each stack shows `n_frames` calls.
pub(crate) fn print(
    tables: &[DeviceOwners],
    snapshots: &[&Snapshot],
    n_frames: usize,
    out: &mut Page,
) -> io::Result<()> {
    let shown = shown_frames(snapshots);
    for (nth, table) in tables.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        print_table(table, &shown, n_frames, out)?;
    }
    Ok(())
}

fn print_table(
    table: &DeviceOwners,
    shown: &[ShownFrames<'_>],
    n_calls: usize,
    out: &mut Page,
) -> io::Result<()> {
    let bold = out.bold();
    writeln!(out, "{bold}{}{bold:#}", fill_words(&title(table), out))?;
    if let [Some(now), Some(peak)] = [table.used_now_bytes, table.used_peak_bytes] {
        let total =
            table.total_bytes.map_or_else(String::new, |bytes| format!(", of {} in total", Bytes(bytes)));
        let (who, how) = if table.host.is_some() { ("kernel", "resident") } else { ("device", "used") };
        let (now, peak) = (Bytes(now), Bytes(peak));
        print_text(format!("the {who} last reported {now} {how}, and {peak} at the peak{total}"), out)?;
    } else if table.is_of_blocks {
        print_text("the figures are sums of blocks, because a heap has no recorded segments", out)?;
    } else if !table.rows.is_empty() {
        print_text(
            "the device's total usage was not recorded, so `peak` is the moment when the most bytes were recorded",
            out,
        )?;
    }
    if table.rows.is_empty() && table.outside.is_empty() {
        return writeln!(out, "nothing was recorded");
    }
    let all = table.rows.iter().chain(&table.outside);
    let widest = all.map(|row| columns(&clean(&row.owner))).max().unwrap_or(0);
    let width = widest.clamp("other processes".len(), MOST_COLUMNS);
    let form = Form { width, of_bytes: of_share(table), n_calls };
    writeln!(
        out,
        "{}",
        heading(
            &form.figures("owner", ["now", "peak"].map(str::to_owned), "share"),
            "mostly requested by",
            out
        )
    )?;
    let stacks = stacks_of(&table.rows, shown);
    let rows = table.rows.iter().zip(&stacks);
    let (unexplained, known): (Vec<_>, Vec<_>) = rows.partition(|(row, _)| row.kind == RowKind::Unexplained);
    known.iter().try_for_each(|(row, stacks)| form.row(row, stacks, out))?;
    let sums = |bytes: fn(&OwnerRow) -> Option<i128>| -> i128 {
        known.iter().filter_map(|(row, _)| bytes(row)).sum()
    };
    form.line("sum", [Some(sums(|row| row.now_bytes)), Some(sums(|row| row.peak_bytes))], out)?;
    for (row, stacks) in unexplained {
        form.row(row, stacks, out)?;
        form.line(
            "used",
            [table.used_now_bytes, table.used_peak_bytes].map(|bytes| bytes.map(i128::from)),
            out,
        )?;
    }
    if !table.outside.is_empty() {
        writeln!(out, "not part of the sum:")?;
        let stacks = stacks_of(&table.outside, shown);
        let mut rows = table.outside.iter().zip(&stacks);
        rows.try_for_each(|(row, stacks)| form.row(row, stacks, out))?;
    }
    let lines = below_zero_line(table).into_iter().chain(rounded_line(table)).chain(addresses_line(table));
    lines.chain(table.host.iter().flat_map(host_lines)).try_for_each(|line| print_text(line, out))
}

/// Returns the meaning of rows that have more than the device reports.
fn below_zero_line(table: &DeviceOwners) -> Option<String> {
    let of_device = table.rows.iter().find(|row| row.kind == RowKind::Unexplained && table.host.is_none())?;
    let below = [(of_device.now_bytes, table.used_now_bytes), (of_device.peak_bytes, table.used_peak_bytes)];
    let bytes = |(bytes, used): (Option<i128>, Option<u64>)| {
        let below = u64::try_from(-bytes?).ok()?;
        (below >= LEAST_ADVICE_BYTES && below >= used? / 100).then_some(below)
    };
    let most = below.into_iter().filter_map(bytes).max()?;
    Some(format!(
        "the rows add up to {} more than the device reports: memory was counted twice, or is not in the GPU's \
         memory, or this process is checkpointed (cuCheckpointProcessCheckpoint), which returns its memory \
         without a free",
        Bytes(most)
    ))
}

/// Returns what pinned memory may have unused because PyTorch rounds its requests up.
fn rounded_line(table: &DeviceOwners) -> Option<String> {
    let unused_bytes = table.rounded_bytes / 2;
    (unused_bytes >= LEAST_ADVICE_BYTES).then(|| {
        format!(
            "PyTorch has {} with a power of two as size, {} in total: it rounds requests up to such sizes, \
             so up to {} may be unused. With {} larger requests keep their sizes",
            count(table.n_rounded, "block"),
            Bytes(table.rounded_bytes),
            Bytes(unused_bytes),
            line_since("pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:1")
        )
    })
}

/// Returns what a process has reserved of addresses, if it ever had some.
fn addresses_line(table: &DeviceOwners) -> Option<String> {
    let (now, peak) = (table.reserved_address_bytes, table.reserved_address_peak_bytes);
    (peak > 0).then(|| {
        format!(
            "{} of address space is reserved for mappings, at most {}. It is not memory; a process has {} of \
             it (x86-64)",
            Bytes(now),
            Bytes(peak),
            Bytes(ADDRESS_SPACE_BYTES)
        )
    })
}

/// Returns what the kernel reports in addition to the table, and what could be returned to it.
fn host_lines(host: &HostFigures) -> Vec<String> {
    let mut lines = Vec::new();
    if host.sample_bytes > 0 {
        lines.push(
            "the heap was sampled: block rows are estimates, and memory without a sampled block counts as \
             unused, so the rows do not add up; without --sample they do"
                .to_owned(),
        );
    } else if host.unused_page_bytes >= LEAST_ADVICE_BYTES {
        let who = host.allocator.unwrap_or("malloc");
        lines.push(format!(
            "{who} keeps {} in pages that are completely free: {}",
            Bytes(host.unused_page_bytes),
            what_returns_pages(host.allocator)
        ));
    }
    lines.extend(arena_line(host).filter(|_| host.sample_bytes == 0));
    if host.swapped_bytes > 0 {
        lines.push(format!("another {} is swapped out", Bytes(host.swapped_bytes)));
    }
    if let Some(group) = host.group {
        let of = |limit| format!(" of {}", Bytes(limit));
        let (limit, most) = (group.limit_bytes.map_or_else(String::new, of), group.peak_bytes);
        let most = most.map_or_else(String::new, |most| format!("; its peak was {}", Bytes(most)));
        let [used, cache, shared, kernel] =
            [group.used_bytes, group.cache_bytes, group.shared_bytes, group.kernel_bytes].map(Bytes);
        lines.push(format!(
            "the cgroup uses {used}{limit} ({cache} page cache, {shared} shared memory, {kernel} kernel memory){most}"
        ));
        if group.n_killed > 0 {
            let killed = group.n_killed;
            lines.push(format!(
                "the kernel killed {killed} processes of the cgroup, which had reached its limit"
            ));
        }
    }
    lines
}

/// Returns what makes an allocator return unused pages to the kernel.
fn what_returns_pages(allocator: Option<&str>) -> &'static str {
    match allocator {
        None => "malloc_trim(0) would release them",
        Some("jemalloc") => {
            "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 returns such pages when blocks are freed, which costs time"
        }
        Some("tcmalloc") => {
            "TCMALLOC_AGGRESSIVE_DECOMMIT=1 returns such pages when blocks are freed, which costs time; \
             MallocExtension_ReleaseFreeMemory() returns them once"
        }
        Some(_) => {
            "MIMALLOC_PURGE_DELAY=0 (MIMALLOC_DECOMMIT_DELAY=0 before 2.1) returns such pages when blocks are freed, which \
             costs time; mi_collect(true) returns them once"
        }
    }
}

/// Returns what fewer arenas would save.
fn arena_line(host: &HostFigures) -> Option<String> {
    let (kept, saved) = (host.arena_unused_bytes, host.one_arena_saves_bytes);
    (saved >= LEAST_ADVICE_BYTES).then(|| {
        format!(
            "of the unused memory that malloc keeps, {} is in {} for threads: MALLOC_ARENA_MAX=1 would \
             save up to {}, but threads would wait for each other",
            Bytes(kept),
            count(host.n_arenas, "arena"),
            Bytes(saved)
        )
    })
}

/// Returns the bytes that shares are of: those that are used at the peak.
fn of_share(table: &DeviceOwners) -> i128 {
    let recorded = || table.rows.iter().filter_map(|row| row.peak_bytes).sum();
    table.used_peak_bytes.map_or_else(recorded, i128::from)
}

fn title(table: &DeviceOwners) -> String {
    let what = match table.device {
        DeviceId::HOST => "pinned host memory".to_owned(),
        device => format!("device {device}"),
    };
    let name = match &*table.name {
        "" => String::new(),
        HEAP if table.parts.len() > 1 => ", heaps of the processes".to_owned(),
        name => format!(", {}", clean(name)),
    };
    let uuid = if table.uuid.is_empty() { String::new() } else { format!(" ({})", clean(&table.uuid)) };
    let files = match table.parts.len() {
        1 => String::new(),
        n => format!(": {}", count(n, "file")),
    };
    format!("{what}{name}{uuid}{files}")
}

/// Returns words in lines that fit.
fn fill_words(text: &str, page: &Page) -> String {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    fill(&words, page.width_left(0), page.width_left(2)).join("\n  ")
}

/// The form of the rows of one table.
struct Form {
    width: usize,
    of_bytes: i128,
    /// The calls of a stack that are shown.
    n_calls: usize,
}

impl Form {
    fn figures(&self, owner: &str, [now, peak]: [String; 2], share: &str) -> String {
        let owner = shortened(owner, self.width);
        let gap = " ".repeat(self.width - columns(&owner));
        format!("{owner}{gap} {now:>12} {peak:>12} {share:>7}")
    }

    fn line(&self, owner: &str, bytes: [Option<i128>; 2], out: &mut Page) -> io::Result<()> {
        writeln!(out, "{}", self.figures(owner, bytes.map(figure), &self.share(bytes[1])).trim_end())
    }

    fn row(&self, row: &OwnerRow, stacks: &RowStacks<'_>, out: &mut Page) -> io::Result<()> {
        let owner = clean(&row.owner);
        let bytes = [row.now_bytes, row.peak_bytes];
        let figures = self.figures(&owner, bytes.map(figure), &self.share(row.peak_bytes));
        if let Some([now, peak]) = stacks.both(self.n_calls) {
            writeln!(out, "{}", figures.trim_end())?;
            let bytes = |stack: &ShownStack<'_>| Bytes(stack.bytes).to_string();
            let now_figures = self.figures("  now", [bytes(now), String::new()], "");
            let peak_figures = self.figures("  at the peak", [String::new(), bytes(peak)], "");
            writeln!(out, "{}", now.row(&now_figures, self.n_calls, out))?;
            return writeln!(out, "{}", peak.row(&peak_figures, self.n_calls, out));
        }
        if let Some(stack) = &stacks.peak {
            return writeln!(out, "{}", stack.row(&figures, self.n_calls, out));
        }
        let (Some(file), Some(bytes)) = (&row.largest_file, row.largest_file_bytes) else {
            return writeln!(out, "{}", figures.trim_end());
        };
        let file = format!("{figures}  {} ({})", clean(base_name(file)), Bytes(bytes));
        writeln!(out, "{}", shortened(&file, out.width_left(0)))
    }

    fn share(&self, bytes: Option<i128>) -> String {
        let Some(bytes) = bytes else { return String::new() };
        let [part, of] = [bytes.unsigned_abs(), self.of_bytes.unsigned_abs()]
            .map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        let share = percent(part, of);
        if bytes < 0 { format!("-{}", share.trim_start()) } else { share }
    }
}

fn figure(bytes: Option<i128>) -> String {
    bytes.map_or_else(|| "not visible".to_owned(), signed)
}

/// A table as a line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    files: Vec<&'a str>,
    device: DeviceId,
    name: Option<&'a str>,
    uuid: Option<&'a str>,
    total_bytes: Option<u64>,
    used_now_bytes: Option<u64>,
    used_peak_bytes: Option<u64>,
    now_us: Option<u64>,
    peak_us: Option<u64>,
    is_of_blocks: bool,
    n_rounded: u64,
    rounded_bytes: u64,
    reserved_address_bytes: u64,
    reserved_address_peak_bytes: u64,
    rows: Vec<Row<'a>>,
    outside: Vec<Row<'a>>,
    host: Option<&'a HostFigures>,
}

/// A row with the frames of its largest stacks.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    row: &'a OwnerRow,
    stack_bytes: Option<u64>,
    stack: Option<Vec<MarkedFrame<'a>>>,
    now_stack_bytes: Option<u64>,
    now_stack: Option<Vec<MarkedFrame<'a>>>,
}

/// Prints a JSON object a line, for each device; `names` are those of the snapshots.
pub(crate) fn print_json(
    tables: &[DeviceOwners],
    snapshots: &[&Snapshot],
    names: &[&str],
    out: &mut Page,
) -> io::Result<()> {
    let shown = shown_frames(snapshots);
    tables.iter().try_for_each(|table| {
        let of_rows = stacks_of(&table.rows, &shown);
        let of_outside = stacks_of(&table.outside, &shown);
        let line = Line {
            files: table.parts.iter().map(|part| names[*part]).collect(),
            device: table.device,
            name: Some(&*table.name).filter(|name| !name.is_empty()),
            uuid: Some(&*table.uuid).filter(|uuid| !uuid.is_empty()),
            total_bytes: table.total_bytes,
            used_now_bytes: table.used_now_bytes,
            used_peak_bytes: table.used_peak_bytes,
            now_us: table.now_us,
            peak_us: table.peak_us,
            is_of_blocks: table.is_of_blocks,
            n_rounded: table.n_rounded,
            rounded_bytes: table.rounded_bytes,
            reserved_address_bytes: table.reserved_address_bytes,
            reserved_address_peak_bytes: table.reserved_address_peak_bytes,
            rows: with_stacks(&table.rows, &of_rows),
            outside: with_stacks(&table.outside, &of_outside),
            host: table.host.as_ref(),
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)
    })
}

fn shown_frames<'a>(snapshots: &[&'a Snapshot]) -> Vec<ShownFrames<'a>> {
    snapshots.iter().map(|snapshot| ShownFrames::new(snapshot)).collect()
}

fn with_stacks<'a>(rows: &'a [OwnerRow], stacks: &[RowStacks<'a>]) -> Vec<Row<'a>> {
    let with_stacks = |(row, stacks): (&'a OwnerRow, &RowStacks<'a>)| Row {
        row,
        stack_bytes: stacks.peak.as_ref().map(|stack| stack.bytes),
        stack: stacks.peak.as_ref().map(ShownStack::frames),
        now_stack_bytes: stacks.now.as_ref().map(|stack| stack.bytes),
        now_stack: stacks.now.as_ref().map(ShownStack::frames),
    };
    rows.iter().zip(stacks).map(with_stacks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_allocator_has_advice_of_its_own() {
        let line = |allocator: Option<&'static str>| {
            let mut host = HostFigures::default();
            (host.unused_page_bytes, host.allocator) = (1 << 30, allocator);
            host_lines(&host).concat()
        };
        assert!(line(None).starts_with("malloc keeps 1.00 GiB") && line(None).contains("malloc_trim(0)"));
        for (name, setting) in
            [("jemalloc", "MALLOC_CONF="), ("tcmalloc", "TCMALLOC_"), ("mimalloc", "MIMALLOC_")]
        {
            let said = line(Some(name));
            assert!(said.starts_with(&format!("{name} keeps 1.00 GiB")) && said.contains(setting), "{said}");
            assert!(!said.contains("malloc_trim"), "{said}");
        }
        assert!(host_lines(&HostFigures::default()).is_empty());
        let mut host = HostFigures::default();
        (host.unused_page_bytes, host.one_arena_saves_bytes, host.sample_bytes) = (1 << 30, 1 << 30, 1 << 19);
        let said = host_lines(&host);
        assert!(said.len() == 1 && said[0].starts_with("the heap was sampled: "), "{said:?}");
    }
}
