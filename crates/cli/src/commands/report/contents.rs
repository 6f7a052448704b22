//! The contents of a report on a snapshot.

#![forbid(unsafe_code)]

use memreel::whatif::explain;
use memreel_snapshot::{
    analysis::{
        Axis, By, DeviceHistory, Group, Histories, SettingsReader, ShownFrames, Site, Totals,
        oom::{Explanation, TriedSetting},
    },
    model::Frame,
};

use super::page::Part;
use crate::{
    exit::Exit,
    failure::Failure,
    findings::growth,
    input::Opened,
    options::{Devices, moment},
    text::{Bytes, clean, count, percent, plot, warnings::warnings},
};

const N_SITES: usize = 10;

/// How many of the largest sites are examined: some of them share one text.
const MOST_SITES: usize = 1000;
const N_SETTINGS: usize = 6;
const PLOT_COLUMNS: usize = 72;
const PLOT_ROWS: usize = 8;

/// Adds the parts of a file.
pub(super) fn add(opened: &Opened, which: Devices, parts: &mut Vec<Part>) -> Result<Exit, Failure> {
    let histories = Histories::new(&opened.snapshot);
    let all: Vec<DeviceHistory<'_>> =
        opened.devices(which)?.into_iter().map(|device| histories.of(device)).collect();
    let mut chosen: Vec<&DeviceHistory<'_>> = all.iter().filter(|history| history.oom().is_some()).collect();
    if chosen.is_empty() {
        chosen.extend(all.iter().max_by_key(|history| history.peak().active_bytes));
    }
    let mut exit = Exit::Fine;
    for history in chosen {
        exit = exit.max(of_device(opened, history, parts));
    }
    Ok(exit)
}

fn of_device(opened: &Opened, history: &DeviceHistory<'_>, parts: &mut Vec<Part>) -> Exit {
    let explanation = history.oom().map(|report| explain(history, report));
    let name = clean(&opened.name).into_owned();
    let device = history.device();
    let head = match &explanation {
        Some(_) => format!("Out of memory: {name}, device {device}"),
        None => format!("Memory of {name}, device {device}"),
    };
    parts.push(Part::Heading(head));
    match &explanation {
        Some(explanation) => parts.push(Part::List(findings(explanation))),
        None => parts.push(Part::Text(growth::finding(history, &history.leaks()))),
    }
    parts.push(figures(opened, history, explanation.as_ref()));
    let moment = explanation.as_ref().map_or(history.peak().moment, |all| all.report().totals.moment);
    parts.push(Part::Text(format!("What holds the most {}:", moment::words(history, moment))));
    parts.push(sites(history, &history.top(moment, By::Stack)));
    parts.push(Part::Folded("Memory over time".to_owned(), Box::new(timeline(history, &name))));
    if let Some(explanation) = explanation.as_ref().filter(|all| !all.tried().settings.is_empty()) {
        let variable = SettingsReader::of(&opened.snapshot).variable();
        let table = settings(variable, &explanation.tried().settings);
        parts.push(Part::Folded("Settings that were tried".to_owned(), Box::new(table)));
    }
    let is_broken = explanation.is_some() || history.trust().n_contradictions > 0;
    if is_broken { Exit::Broken } else { Exit::Fine }
}

fn findings(explanation: &Explanation<'_, '_>) -> Vec<(String, Option<String>)> {
    let causes = explanation.causes().into_iter();
    causes.map(|cause| (format!("{}: {}", cause.kind.name(), cause.finding), cause.advice)).collect()
}

fn figures(opened: &Opened, history: &DeviceHistory<'_>, explanation: Option<&Explanation<'_, '_>>) -> Part {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    if let Some(explanation) = explanation {
        let report = explanation.report();
        let step = explanation.step().map_or_else(String::new, |step| format!(" {step}"));
        let moment = moment::words(history, report.totals.moment);
        row("requested", format!("{}{step}, {moment}", Bytes(report.requested_bytes)));
        row(
            "in use, reserved",
            format!("{}, {}", Bytes(report.totals.active_bytes), Bytes(report.totals.reserved_bytes)),
        );
        row("free on the device", Bytes(report.device_free_bytes).to_string());
        row(
            "free in this pool",
            format!("{}, largest piece {}", Bytes(report.free_here_bytes), Bytes(report.largest_free_bytes)),
        );
    } else {
        let (peak, end) = (history.peak(), history.totals_at(history.end()));
        let of = |totals: &Totals| {
            format!("{} in use, {} reserved", Bytes(totals.active_bytes), Bytes(totals.reserved_bytes))
        };
        row("peak", format!("{}, {}", of(&peak), moment::words(history, peak.moment)));
        row("end", of(&end));
    }
    row(
        "settings",
        opened
            .setting("PYTORCH_CUDA_ALLOC_CONF")
            .map_or("not in the file", |conf| if conf.is_empty() { "the defaults" } else { conf })
            .to_owned(),
    );
    row("the file is", opened.writer());
    row("events", count(history.entries().len(), "event"));
    let mut limits = warnings(history);
    if limits.is_empty() {
        limits.push("the history is complete".to_owned());
    }
    row("recorded", limits.join("; "));
    row("reported by", format!("memreel {}", env!("CARGO_PKG_VERSION")));
    Part::Table(vec!["", ""], rows)
}

fn sites(history: &DeviceHistory<'_>, groups: &[Group]) -> Part {
    let shown = history.shown_frames();
    let all_bytes = groups.iter().map(|group| group.bytes).fold(0, u64::saturating_add);
    // Sites that differ only further out share one text.
    let mut sums: Vec<(String, u64, usize)> = Vec::new();
    for group in groups.iter().take(MOST_SITES) {
        let path = path(&group.site, &shown);
        match sums.iter_mut().find(|(known, ..)| *known == path) {
            Some((_, bytes, n_blocks)) => {
                (*bytes, *n_blocks) = (bytes.saturating_add(group.bytes), *n_blocks + group.n_blocks);
            }
            None => sums.push((path, group.bytes, group.n_blocks)),
        }
    }
    sums.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    let row = |(path, bytes, n_blocks): (String, u64, usize)| {
        let share = percent(bytes, all_bytes).trim().to_owned();
        vec![share, Bytes(bytes).to_string(), n_blocks.to_string(), path]
    };
    let rows = sums.into_iter().take(N_SITES).map(row).collect();
    Part::Table(vec!["share", "bytes", "blocks", "allocated by"], rows)
}

/// Returns a site with the paths of its files: the program's own call, and the innermost one.
fn path(site: &Site, shown: &ShownFrames<'_>) -> String {
    let text = |frame: &Frame| {
        let line = if frame.line == 0 { String::new() } else { format!(":{}", frame.line) };
        format!("{}{line} in {}", clean(&frame.filename), clean(&frame.name))
    };
    let Site::Stack(stack) = site else {
        return match site {
            Site::Size(bytes) => format!("{} {} each", shown.no_stack(), Bytes(*bytes)),
            _ => shown.no_stack().to_owned(),
        };
    };
    let (innermost, own) = (shown.innermost(*stack).map(text), shown.own(*stack).map(text));
    match (innermost, own) {
        (Some(innermost), Some(own)) if innermost != own => format!("{own}, through {innermost}"),
        (innermost, _) => innermost.unwrap_or_else(|| shown.no_stack().to_owned()),
    }
}

fn timeline(history: &DeviceHistory<'_>, title: &str) -> Part {
    // Writing to a vector does not fail.
    let draw = |draw: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut bytes = Vec::new();
        let _ = draw(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let points = |n| history.timeline(Axis::Events, n);
    Part::Plot {
        characters: draw(&|out| plot::characters(&points(PLOT_COLUMNS), PLOT_ROWS, out)),
        svg: draw(&|out| plot::svg(&points(plot::SVG_POINTS), title, out)),
    }
}

fn settings(variable: &'static str, tried: &[TriedSetting]) -> Part {
    let row = |setting: &TriedSetting| {
        let served = setting.served.n_requests;
        vec![
            if setting.conf.is_empty() { "the defaults".to_owned() } else { setting.conf.clone() },
            match served {
                0 => "no".to_owned(),
                1 => "yes, once".to_owned(),
                _ => format!("yes, {served} times"),
            },
            Bytes(setting.reserved_peak_bytes).to_string(),
            setting.num_device_calls.to_string(),
        ]
    };
    let rows = tried.iter().take(N_SETTINGS).map(row).collect();
    Part::Table(vec![variable, "satisfies the request", "reserved", "device calls"], rows)
}
