//! A table: columns under headings, the first flush left, the others flush right.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Headings and rows. Each row has as many cells as there are headings.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                let (before, after) = if column == 0 { ("", pad.as_str()) } else { (pad.as_str(), "") };
                line += &format!("{}{before}{cell}{after}", if column == 0 { "" } else { "  " });
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
