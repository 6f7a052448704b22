//! A table: columns under headings, the first flush left, the others flush right.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use super::{
    fit::{columns, fill, wrap},
    page::Page,
};

/// Headings and rows. Each row has as many cells as there are headings.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    /// Texts below the cells.
    notes: Vec<String>,
}

/// How a table is laid out in lines of limited width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Form {
    /// Whether headings take several lines.
    stacks_headings: bool,
    /// The number of blanks between columns.
    gap: usize,
    /// Whether the first cell has a line of its own, above the others.
    is_first_above: bool,
}

/// From the widest table to the narrowest.
const FORMS: [Form; 6] = [
    Form { stacks_headings: false, gap: 2, is_first_above: false },
    Form { stacks_headings: true, gap: 2, is_first_above: false },
    Form { stacks_headings: true, gap: 1, is_first_above: false },
    Form { stacks_headings: false, gap: 2, is_first_above: true },
    Form { stacks_headings: true, gap: 2, is_first_above: true },
    Form { stacks_headings: true, gap: 1, is_first_above: true },
];

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Table {
        Table { headings: headings.iter().map(|heading| (*heading).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row { cells, notes: Vec::new() });
    }

    /// Adds a text below the last row.
    pub(crate) fn note(&mut self, text: String) {
        if let Some(row) = self.rows.last_mut() {
            row.notes.push(text);
        }
    }

    /// Adds a column on the right.
    pub(crate) fn column(&mut self, heading: &str, cells: impl IntoIterator<Item = String>) {
        self.headings.push(heading.to_owned());
        self.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
    }

    /// Returns how many columns of text a further column can take; `None` if nothing limits it.
    pub(crate) fn columns_left(&self, page: &Page) -> Option<usize> {
        page.width().map(|width| width.saturating_sub(self.width(FORMS[0]) + FORMS[0].gap))
    }

    pub(crate) fn print(&self, out: &mut Page) -> io::Result<()> {
        self.lines(out.width_left(0)).iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Returns the table in the first form that takes at most `room` columns.
    fn lines(&self, room: usize) -> Vec<String> {
        let last = FORMS[FORMS.len() - 1];
        let form = FORMS.into_iter().find(|form| self.width(*form) <= room).unwrap_or(last);
        let widths = self.widths(form);
        let headings = self.heading_lines(form);
        let mut lines: Vec<String> =
            headings.iter().map(|line| line_of(&line[form.first()..], &widths, form)).collect();
        for Row { cells, notes } in &self.rows {
            if form.is_first_above {
                lines.push(wrap(&cells[0], 2, room));
            }
            lines.push(line_of(&cells[form.first()..], &widths, form));
            lines.extend(notes.iter().map(|note| wrap(&format!("  {note}"), 4, room)));
        }
        lines
    }

    fn width(&self, form: Form) -> usize {
        let widths = self.widths(form);
        widths.iter().sum::<usize>() + form.gap * widths.len().saturating_sub(1) + form.indent()
    }

    /// Returns the widths of the columns that share a line.
    fn widths(&self, form: Form) -> Vec<usize> {
        let headings = self.heading_lines(form);
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row.cells[column]);
            cells
                .chain(headings.iter().map(|line| &line[column]))
                .map(|cell| columns(cell))
                .max()
                .unwrap_or(0)
        };
        (form.first()..self.headings.len()).map(width).collect()
    }

    /// Returns the lines of the headings. Where they are stacked, a heading that is wider than its cells is broken at
    /// blanks.
    fn heading_lines(&self, form: Form) -> Vec<Vec<String>> {
        if !form.stacks_headings {
            return vec![self.headings.clone()];
        }
        let stack = |(column, heading): (usize, &String)| {
            let room = self.rows.iter().map(|row| columns(&row.cells[column])).max().unwrap_or(0);
            let words: Vec<String> = heading.split_whitespace().map(str::to_owned).collect();
            fill(&words, room, room)
        };
        let stacks: Vec<Vec<String>> = self.headings.iter().enumerate().map(stack).collect();
        let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let cell =
                |stack: &Vec<String>| (at + stack.len()).checked_sub(height).map(|at| stack[at].clone());
            stacks.iter().map(|stack| cell(stack).unwrap_or_default()).collect()
        };
        (0..height).map(line).collect()
    }
}

impl Form {
    /// The first of the columns that share a line.
    fn first(self) -> usize {
        usize::from(self.is_first_above)
    }

    /// The indent of the figures below a first cell.
    fn indent(self) -> usize {
        2 * self.first()
    }
}

/// Returns a line: the first cell flush left, unless it has a line of its own, and the others flush right.
fn line_of(cells: &[String], widths: &[usize], form: Form) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width - columns(cell));
        let is_left = column == 0 && !form.is_first_above;
        let gap = " ".repeat(if column == 0 { form.indent() } else { form.gap });
        line += &if is_left { format!("{cell}{pad}") } else { format!("{gap}{pad}{cell}") };
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_becomes_narrower_in_steps() {
        let mut table = Table::new(&["setting", "peak reserved", "frees"]);
        table.row(vec!["(defaults)".to_owned(), "1.50 GiB".to_owned(), "7".to_owned()]);
        table.note("and the same under another".to_owned());
        assert_eq!(
            table.lines(usize::MAX),
            [
                "setting     peak reserved  frees",
                "(defaults)       1.50 GiB      7",
                "  and the same under another"
            ]
        );
        let stacked = ["                peak", "setting     reserved  frees", "(defaults)  1.50 GiB      7"];
        assert_eq!(table.lines(31)[..3], stacked);
        let close = ["               peak", "setting    reserved frees", "(defaults) 1.50 GiB     7"];
        assert_eq!(table.lines(26)[..3], close);
        let above = ["  peak reserved  frees", "(defaults)", "       1.50 GiB      7"];
        assert_eq!(table.lines(22)[..3], above);
        let narrowest = ["      peak", "  reserved frees", "(defaults)", "  1.50 GiB     7"];
        assert_eq!(table.lines(16)[..4], narrowest);
        assert_eq!(table.lines(16)[4], "  and the same\n    under\n    another");
    }
}
