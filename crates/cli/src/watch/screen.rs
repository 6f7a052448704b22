//! Draws a view, for any size of terminal.

#![forbid(unsafe_code)]

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    keys::KEYS,
    lines::{lists, oom, used, who},
    view::{Process, View},
};
use crate::{
    run::figures::Figures,
    text::{Bytes, bytes::signed, clean, fit::shortened},
};

/// The columns of bytes, and of the longest bar.
const BYTES_COLUMNS: usize = 11;
const MOST_BAR: usize = 30;

/// Draws the view. It has no colours of its own, so it is the same with `NO_COLOR`.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let area = frame.area();
    let n_list = u16::try_from(view.shown().len() + 1).unwrap_or(u16::MAX).min(area.height / 3).max(2);
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(n_list),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .split(area);
    let width = usize::from(area.width);
    frame.render_widget(Paragraph::new(title(view)), parts[0]);
    if view.has_help {
        let body = Rect { height: parts[1].height + parts[2].height, ..parts[1] };
        frame.render_widget(Paragraph::new(help()), body);
    } else {
        frame.render_widget(Paragraph::new(list(view, usize::from(n_list))), parts[1]);
        let body: Vec<Line<'_>> =
            view.figures.iter().flat_map(|figures| device(figures, &view.filter, width)).collect();
        let most = u16::try_from(body.len()).unwrap_or(u16::MAX).saturating_sub(1);
        frame.render_widget(Paragraph::new(body).scroll((view.scroll.min(most), 0)), parts[2]);
    }
    frame.render_widget(Paragraph::new(footer(view)), parts[3]);
}

/// Returns a line, which ends at the edge of the screen.
fn line(text: &str, style: Style) -> Line<'static> {
    Line::from(Span::styled(text.to_owned(), style))
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn title(view: &View) -> Line<'static> {
    let n = match view.processes.len() {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    };
    let frozen = if view.is_frozen { ", frozen" } else { "" };
    let filter = if view.filter.is_empty() { String::new() } else { format!(", with {:?}", view.filter) };
    line(&format!("memreel watch: {n} by {}{filter}{frozen}", view.order.name()), bold())
}

fn footer(view: &View) -> Line<'static> {
    let text = if view.is_typing {
        format!("show only: {}_", view.filter)
    } else if let (true, Some(why)) = (view.message.is_empty(), &view.refused) {
        why.clone()
    } else if view.message.is_empty() {
        "? help  q quit  s snapshot  p page  f freeze  / filter  o order".to_owned()
    } else {
        view.message.clone()
    };
    line(&clean(&text), Style::new().add_modifier(Modifier::DIM))
}

fn help() -> Vec<Line<'static>> {
    KEYS.iter().map(|(keys, what)| line(&format!("  {keys:<20} {what}"), Style::new())).collect()
}

/// Returns the list of processes, of which the selected one is always there.
fn list(view: &View, height: usize) -> Vec<Line<'static>> {
    let shown = view.shown();
    if shown.is_empty() {
        return vec![line("no recorded process yet; waiting for one", Style::new())];
    }
    let mut lines = vec![line("  rank process       bytes  allocs/s", Style::new())];
    let at = shown.iter().position(|process| Some(&process.path) == view.selected.as_ref()).unwrap_or(0);
    let room = height.saturating_sub(1).max(1);
    let first = (at + 1).saturating_sub(room);
    for process in shown.iter().skip(first).take(room) {
        let is_selected = Some(&process.path) == view.selected.as_ref();
        let style = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        lines.push(line(&row(process, is_selected), style));
    }
    lines
}

fn row(process: &Process, is_selected: bool) -> String {
    let mark = if is_selected { '>' } else { ' ' };
    let rank = process.rank.as_deref().unwrap_or("-");
    let bytes = Bytes(process.bytes).to_string();
    let ended = if process.is_running { "" } else { "  ended" };
    let failed = if process.n_ooms > 0 { "  out of memory" } else { "" };
    let (number, rate) = (process.process, process.allocations_per_s);
    format!("{mark} {:>4} {number:>7} {bytes:>BYTES_COLUMNS$} {rate:>9}{ended}{failed}", clean(rank))
}

fn device(figures: &Figures, filter: &str, width: usize) -> Vec<Line<'static>> {
    let plain = |text: &str| line(text, Style::new());
    let mut lines = vec![plain(""), line(&who(figures), bold()), plain(&used(figures))];
    if let (Some(used), Some(limit)) = (figures.used_bytes, figures.limit_bytes) {
        lines.push(plain(&bar(used, limit, width.saturating_sub(2).min(2 * MOST_BAR))));
    }
    let (rate, bytes) = (figures.allocations_per_s, Bytes(figures.allocated_bytes_per_s));
    lines.push(plain(&format!(
        "{rate} allocations/s, {bytes}/s; at most {} live",
        Bytes(figures.live_peak_bytes)
    )));
    if let Some(failed) = &figures.oom {
        lines.push(line(&oom(failed), bold()));
    }
    lines.extend(figures.problems.iter().map(|problem| plain(&clean(problem))));
    let most = figures.owners.iter().map(|row| row.bytes).max().unwrap_or(0);
    // Names have the same columns, and on a narrow terminal there is no bar.
    let columns = width.saturating_sub(BYTES_COLUMNS + 2).clamp(1, 24);
    let room = width.saturating_sub(BYTES_COLUMNS + columns + 4).min(MOST_BAR);
    for row in &figures.owners {
        let owner = shortened(&clean(&row.owner), columns);
        let bar = if room < 4 { String::new() } else { bar_of(row.bytes, most, room) };
        lines.push(plain(&format!("{:>BYTES_COLUMNS$}  {owner:<columns$}  {bar}", signed(row.bytes.into()))));
    }
    for (heading, sites) in lists(figures) {
        let sites: Vec<_> = sites.iter().filter(|site| passes(&site.text, filter, figures)).collect();
        if !sites.is_empty() {
            lines.push(line(&heading, bold()));
        }
        for site in sites {
            lines.push(plain(&format!("{:>BYTES_COLUMNS$}  {}", signed(site.bytes.into()), site.text)));
        }
    }
    lines
}

/// Returns whether a site is shown. A filter that is about processes says nothing of sites.
fn passes(text: &str, filter: &str, figures: &Figures) -> bool {
    let of_process = |text: String| text.contains(filter);
    text.contains(filter) || of_process(who(figures)) || of_process(figures.file.clone())
}

fn bar(used: u64, limit: u64, room: usize) -> String {
    let clamp = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let full = bar_of(clamp(used), clamp(limit), room);
    format!("[{full:<room$}]")
}

/// Returns a bar whose length is the share of `most`.
fn bar_of(bytes: i64, most: i64, room: usize) -> String {
    if bytes <= 0 || most <= 0 {
        return String::new();
    }
    let n = (i128::from(bytes) * room as i128 + i128::from(most) / 2) / i128::from(most);
    "█".repeat(usize::try_from(n).unwrap_or(0).clamp(1, room.max(1)))
}

#[cfg(test)]
mod tests;
