//! Prints sites of allocations: the innermost call, and its callers.

#![forbid(unsafe_code)]

use std::{
    fmt::Display,
    io::{self, Write},
};

use memreel_snapshot::analysis::{AtSite, DeviceHistory, Group, ShownFrames, Site, SiteFrames, WithFrames};

pub(crate) use super::site_text::call;
use super::{
    bytes::Bytes,
    calls::Calls,
    clean, count,
    fit::{broken, columns, fill},
    page::Page,
    percent,
    site_text::{SiteText, add_differences},
};

/// Prints the sites of one snapshot.
pub(crate) struct Sites<'a> {
    shown: ShownFrames<'a>,
    calls: Calls,
}

impl<'a> Sites<'a> {
    pub(crate) fn new(history: &DeviceHistory<'a>, calls: impl Into<Calls>) -> Sites<'a> {
        Sites::of(history.shown_frames(), calls)
    }

    /// Creates it from the frames of a snapshot.
    pub(crate) fn of(shown: ShownFrames<'a>, calls: impl Into<Calls>) -> Sites<'a> {
        Sites { shown, calls: calls.into() }
    }

    /// Returns the text of a site.
    fn text(&self, site: &Site) -> SiteText<'a> {
        match site {
            Site::Stack(stack) => {
                let frames = self.shown.identifying_frames(*stack).collect();
                SiteText::calls(frames, self.calls.n, self.calls.has_paths)
            }
            site => SiteText::other(site, self.shown.no_stack()),
        }
    }

    /// Returns the calls of a site that are shown, in one line.
    pub(crate) fn plain(&self, site: &Site) -> String {
        self.text(site).plain()
    }

    /// Returns the calls of sites, in one line each. No two sites have equal lines.
    pub(crate) fn all_plain(&self, sites: &[&Site]) -> Vec<String> {
        let mut texts: Vec<SiteText<'a>> = sites.iter().map(|site| self.text(site)).collect();
        add_differences(&mut texts, usize::MAX);
        texts.iter().map(SiteText::plain).collect()
    }

    /// Returns a row for a site: figures, the innermost call, and below it its callers.
    pub(crate) fn row(&self, figures: &str, site: &Site, page: &Page) -> String {
        self.text(site).row(figures, page)
    }

    /// Returns the heading of the columns of [`Sites::print_groups`].
    pub(crate) fn heading(page: &Page) -> String {
        heading(&figures("share", "bytes", "blocks"), "allocated by ← called by", page)
    }

    /// Prints a row for each group: its share, bytes and number of blocks, and its site.
    pub(crate) fn print_groups(&self, groups: &[Group], of_bytes: u64, out: &mut Page) -> io::Result<()> {
        let of = |group: &Group| figures(percent(group.bytes, of_bytes), Bytes(group.bytes), group.n_blocks);
        let rows = rows(groups.iter().map(|group| (of(group), self, &group.site)), out);
        for (row, group) in rows.iter().zip(groups) {
            writeln!(out, "{row}")?;
            if let Some(names) = names(group) {
                let (faint, indent) = (out.faint(), 28);
                let room = out.width_left(indent);
                let pieces: Vec<String> = names.split(' ').flat_map(|word| broken(word, room)).collect();
                for line in fill(&pieces, room, room) {
                    writeln!(out, "{:indent$}{faint}{line}{faint:#}", "")?;
                }
            }
        }
        Ok(())
    }

    /// Returns a site with every frame, innermost first, for JSON.
    pub(crate) fn site_frames<'s>(&'s self, site: &'s Site) -> SiteFrames<'s> {
        SiteFrames::new(site, &self.shown)
    }

    /// Returns a result with every frame of its site, for JSON.
    pub(crate) fn with_frames<'s, T: AtSite>(&'s self, result: &'s T) -> WithFrames<'s, T> {
        WithFrames::new(result, &self.shown)
    }

    /// Like [`Sites::with_frames`], for at most `n` results.
    pub(crate) fn first_with_frames<'s, T: AtSite>(
        &'s self,
        results: &'s [T],
        n: usize,
    ) -> Vec<WithFrames<'s, T>> {
        results.iter().take(n).map(|result| self.with_frames(result)).collect()
    }
}

/// Returns the heading of the columns of [`Sites::print_groups`] for owners.
pub(crate) fn owner_heading(page: &Page) -> String {
    heading(&figures("share", "reserved", "pieces"), "owner", page)
}

/// Returns figures in columns: a share or a count, a size, and a count.
pub(crate) fn figures(share: impl Display, size: impl ToString, n: impl Display) -> String {
    format!("{share:>7} {:>11} {n:>6}", size.to_string())
}

/// Returns the heading of a list of sites: the names of its figures, and of what has them.
pub(crate) fn heading(figures: &str, what: &str, page: &Page) -> String {
    let faint = page.faint();
    format!("{faint}{figures}  {what}{faint:#}")
}

/// Prints a row for each site, given with its figures and the sites of its snapshot. No two sites have equal rows.
pub(crate) fn print_rows<'s, 'a: 's>(
    rows: impl IntoIterator<Item = (String, &'s Sites<'a>, &'s Site)>,
    out: &mut Page,
) -> io::Result<()> {
    self::rows(rows, out).iter().try_for_each(|row| writeln!(out, "{row}"))
}

/// Returns the rows of sites, of which no two are equal.
fn rows<'s, 'a: 's>(
    rows: impl IntoIterator<Item = (String, &'s Sites<'a>, &'s Site)>,
    page: &Page,
) -> Vec<String> {
    let (figures, mut texts): (Vec<String>, Vec<SiteText<'a>>) =
        rows.into_iter().map(|(figures, sites, site)| (figures, sites.text(site))).unzip();
    let indent = figures.iter().map(|figures| columns(figures) + 2).max().unwrap_or(0);
    add_differences(&mut texts, page.width_left(indent));
    figures.iter().zip(&texts).map(|(figures, text)| text.row(figures, page)).collect()
}

/// Returns the names of a group's blocks, if there are any and the site does not consist of them.
fn names(group: &Group) -> Option<String> {
    const N_SHOWN: usize = 3;
    if group.names.is_empty() || matches!(group.site, Site::Name(_)) {
        return None;
    }
    let shown: Vec<_> = group.names.iter().take(N_SHOWN).map(|name| clean(name)).collect();
    let more = match group.names.len().saturating_sub(N_SHOWN) {
        0 => String::new(),
        n => format!(" and {}", count(n, "more name")),
    };
    Some(format!("named {}{more}", shown.join(", ")))
}
