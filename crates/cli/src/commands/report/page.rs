//! A page in parts, written as Markdown or HTML.

#![forbid(unsafe_code)]

use crate::text::{clean, escape_xml};

/// A part of a page.
pub(super) enum Part {
    Heading(String),
    Text(String),
    /// Findings, each with what to do.
    List(Vec<(String, Option<String>)>),
    /// Headings, and rows of cells.
    Table(Vec<&'static str>, Vec<Vec<String>>),
    /// Lines of characters, and the picture in their place where there can be one.
    Plot {
        characters: String,
        svg: String,
    },
    /// A part that is collapsed until a reader opens it.
    Folded(String, Box<Part>),
}

/// Returns a page as Markdown, which GitHub shows.
pub(super) fn markdown(parts: &[Part]) -> String {
    parts.iter().map(|part| markdown_of(part) + "\n").collect()
}

fn markdown_of(part: &Part) -> String {
    match part {
        Part::Heading(text) => format!("## {}\n", escaped(text)),
        Part::Text(text) => format!("{}\n", escaped(text)),
        Part::List(items) => {
            let item = |(number, (finding, advice)): (usize, &(String, Option<String>))| {
                let advice =
                    advice.as_ref().map_or_else(String::new, |advice| format!(". **{}**", escaped(advice)));
                format!("{number}. {}{advice}\n", escaped(finding))
            };
            (1..).zip(items).map(item).collect()
        }
        Part::Table(heads, rows) => {
            let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
            let rule = vec!["---".to_owned(); heads.len()];
            let rows = rows.iter().map(|row| line(&row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>()));
            line(&heads) + &line(&rule) + &rows.collect::<String>()
        }
        Part::Plot { characters, .. } => format!("```text\n{characters}```\n"),
        Part::Folded(title, part) => {
            format!(
                "<details><summary>{}</summary>\n\n{}\n</details>\n",
                escape_xml(title),
                markdown_of(part)
            )
        }
    }
}

/// Returns a text of one line that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => all.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '@' | '$' => {
                all.push('\\');
                all.push(c);
            }
            c => all.push(c),
        }
    }
    all
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}\
td:not(:last-child){white-space:nowrap}\
pre{overflow:auto}svg{max-width:100%;height:auto}";

/// Returns a page as one HTML file, without scripts and network access.
pub(super) fn html(title: &str, parts: &[Part]) -> String {
    let body: String = parts.iter().map(html_of).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head>\
         <body>\n{body}</body></html>\n",
        escape_xml(title)
    )
}

fn html_of(part: &Part) -> String {
    match part {
        Part::Heading(text) => format!("<h2>{}</h2>\n", escape_xml(text)),
        Part::Text(text) => format!("<p>{}</p>\n", escape_xml(text)),
        Part::List(items) => {
            let item = |(finding, advice): &(String, Option<String>)| {
                let advice = advice
                    .as_ref()
                    .map_or_else(String::new, |advice| format!(". <b>{}</b>", escape_xml(advice)));
                format!("<li>{}{advice}</li>\n", escape_xml(finding))
            };
            format!("<ol>\n{}</ol>\n", items.iter().map(item).collect::<String>())
        }
        Part::Table(heads, rows) => {
            let cells = |tag: &str, cells: &[String]| -> String {
                cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_xml(cell))).collect()
            };
            let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
            let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
            format!("<table>\n<tr>{}</tr>\n{rows}</table>\n", cells("th", &heads))
        }
        Part::Plot { svg, .. } => svg.clone(),
        Part::Folded(title, part) => {
            format!("<details><summary>{}</summary>\n{}</details>\n", escape_xml(title), html_of(part))
        }
    }
}
