//! Fits text to the width of a line: wraps it at blanks, or shortens it in the middle.

#![forbid(unsafe_code)]

use std::{
    fmt::Display,
    io::{self, Write},
};

use memreel_snapshot::words::paths::SEPARATORS;

use super::page::Page;

/// Returns the number of columns that a text takes on a terminal; sequences for colours take none.
pub(crate) fn columns(text: &str) -> usize {
    console::measure_text_width(text)
}

/// Returns whether a text takes at most `room` columns.
pub(crate) fn fits(text: &str, room: usize) -> bool {
    // No character takes more columns than it has bytes, and most texts are short.
    text.len() <= room || columns(text) <= room
}

/// Prints a sentence, wrapped at blanks if it is longer than a line.
pub(crate) fn print_text(text: impl Display, out: &mut Page) -> io::Result<()> {
    print_wrapped(&text.to_string(), 2, out)
}

/// Like [`print_text`], with an indent of the lines after the first.
pub(crate) fn print_wrapped(text: &str, indent: usize, out: &mut Page) -> io::Result<()> {
    writeln!(out, "{}", wrap(text, indent, out.width_left(0)))
}

/// Wraps a sentence at blanks, for lines of `width` columns. The lines after the first are indented. A word is never
/// broken, because it may be a path that readers copy.
pub(crate) fn wrap(text: &str, indent: usize, width: usize) -> String {
    if fits(text, width) {
        return text.to_owned();
    }
    let blanks = text.len() - text.trim_start().len();
    let lines = fill(&words(text.trim()), width.saturating_sub(blanks), width.saturating_sub(indent));
    let [first, rest] = [blanks, indent].map(|n| " ".repeat(n));
    format!("{first}{}", lines.join(&format!("\n{rest}")))
}

/// Returns the words of a sentence. A number is one word with its unit; of several blanks in a row all but one
/// are kept.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if is_number(last) && !word.is_empty() => *last += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    word.trim_start_matches(['(', '+', '-']).parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns a command after a text, for readers to copy: if it is longer than a line, the shell joins its lines again.
pub(crate) fn command(lead: &str, words: &[&str], page: &Page) -> String {
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    words[0].insert_str(0, lead);
    let whole = words.join(" ");
    if fits(&whole, page.width_left(0)) {
        return whole;
    }
    fill(&words, page.width_left(2), page.width_left(6)).join(" \\\n    ")
}

/// Puts pieces of text into lines of at most `first` and then `room` columns, with blanks between the pieces.
/// A piece that is longer than a line has a line of its own.
pub(crate) fn fill(pieces: &[String], first: usize, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        let room = if lines.len() > 1 { room } else { first };
        match lines.last_mut() {
            Some(line) if joined_fits(line, piece, room) => *line += &format!(" {piece}"),
            _ if piece.is_empty() => {}
            _ => lines.push(piece.clone()),
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

fn joined_fits(line: &str, piece: &str, room: usize) -> bool {
    line.len() + 1 + piece.len() <= room || columns(line) + 1 + columns(piece) <= room
}

/// Breaks a text into lines of `room` columns, anywhere.
pub(crate) fn broken(text: &str, room: usize) -> Vec<String> {
    if fits(text, room) {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    let mut taken = 0;
    for c in text.chars() {
        let n = char_columns(c);
        if taken + n > room && taken > 0 {
            lines.push(String::new());
            taken = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
        taken += n;
    }
    lines
}

/// Shortens a text to at most `room` columns: its middle becomes an ellipsis.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if fits(text, room) {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let head = taken(text.chars(), room / 3);
    let tail = taken(text.chars().rev(), room - columns(&head));
    format!("{head}…{}", tail.chars().rev().collect::<String>())
}

/// Shortens a text to at most `room` columns: its beginning becomes an ellipsis.
pub(crate) fn ending(text: &str, room: usize) -> String {
    if fits(text, room) {
        return text.to_owned();
    }
    let tail = taken(text.chars().rev(), room.saturating_sub(1));
    format!("…{}", tail.chars().rev().collect::<String>())
}

/// Shortens a path to at most `room` columns: its first folders become an ellipsis.
pub(crate) fn path_ending(path: &str, room: usize) -> String {
    if fits(path, room) {
        return path.to_owned();
    }
    let (mut left, mut found) = (room.saturating_sub(1), None);
    for (at, c) in path.char_indices().rev() {
        let n = char_columns(c);
        if n > left {
            break;
        }
        left -= n;
        found = if SEPARATORS.contains(&c) { Some(at) } else { found };
    }
    match found {
        Some(at) => format!("…{}", &path[at..]),
        None => ending(path, room),
    }
}

/// Returns the first characters that fit.
fn taken(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut left = room;
    chars
        .take_while(|c| {
            let n = char_columns(*c);
            let fits = n <= left;
            left = left.saturating_sub(n);
            fits
        })
        .collect()
}

pub(crate) fn char_columns(c: char) -> usize {
    columns(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_at_blanks() {
        assert_eq!(wrap("one two three four", 2, 9), "one two\n  three\n  four");
        assert_eq!(wrap("  one two", 4, 6), "  one\n    two");
        assert_eq!(wrap("at most 1.50 MiB (24 bytes)", 2, 11), "at most\n  1.50 MiB\n  (24 bytes)");
        assert_eq!(wrap("ok      12 B  end", 2, 14), "ok      12 B\n  end");
        // A path is not broken, and colours take no columns.
        assert_eq!(wrap("see /a/long/path for it", 2, 8), "see\n  /a/long/path\n  for it");
        assert_eq!(wrap("\u{1b}[1mone\u{1b}[0m two three", 1, 7), "\u{1b}[1mone\u{1b}[0m two\n three");
    }

    #[test]
    fn texts_are_shortened_in_the_middle() {
        assert_eq!(shortened("abcdefgh", 8), "abcdefgh");
        assert_eq!(shortened("abcdefghij", 7), "ab…ghij");
        assert_eq!(ending("abcdefghij", 7), "…efghij");
        assert_eq!(path_ending("/usr/lib/a.py", 13), "/usr/lib/a.py");
        assert_eq!(path_ending("/usr/lib/a.py", 12), "…/lib/a.py");
        assert_eq!(path_ending("/usr/lib/abcdef.py", 9), "…bcdef.py");
        assert_eq!(path_ending(r"C:\env\lib\a.py", 12), r"…\lib\a.py");
        // A wide character takes two columns.
        assert_eq!(columns(&shortened("名前名前名前", 8)), 7);
        for room in 0..12 {
            assert!(columns(&shortened("名abcde前fghij", room)) <= room.max(1));
        }
    }

    #[test]
    fn texts_are_broken_anywhere() {
        assert_eq!(broken("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(broken("名前a", 3), ["名", "前a"]);
        assert_eq!(broken("", 3), [""]);
    }
}
