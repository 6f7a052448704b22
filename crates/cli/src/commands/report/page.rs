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

/// The style after the colours, which are those of the page of `memreel view`.
const STYLE: &str = "\
body{margin:0 auto;max-width:74em;padding:1.2em 1.2em 3em;background:var(--ground);color:var(--text);font:14px/1.5 var(--text-font)}\
h2{font-size:20px;line-height:1.3;margin:.2em 0 .6em;overflow-wrap:anywhere}\
ol{padding-inline-start:1.4em}li{margin:.4em 0;overflow-wrap:anywhere}li:first-child{font-weight:600}li span{display:block;font-weight:400;color:var(--quiet)}\
p{overflow-wrap:anywhere}.table{overflow-x:auto;margin:1em 0}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
td,th{border-bottom:1px solid var(--edge);padding:4px 10px;text-align:left;vertical-align:top}\
th{color:var(--quiet);font-weight:600;background:var(--surface)}\
td:not(:last-child){white-space:nowrap}td:first-child{color:var(--quiet)}td:last-child{overflow-wrap:anywhere;min-width:14em}\
details{margin:1em 0;border:1px solid var(--edge);border-radius:7px;background:var(--surface);padding:8px 12px}summary{cursor:pointer;font-weight:600}\
svg{display:block;max-width:100%;height:auto;margin-top:8px;border-radius:5px}svg text{fill:var(--text);font-family:var(--text-font)}\
svg [fill=\"#ffffff\"]{fill:var(--ground)}svg [fill=\"#d9d9d9\"]{fill:var(--rest)}svg [fill=\"#fdae6b\"]{fill:var(--reserved)}svg [fill=\"#3182bd\"]{fill:var(--accent)}svg [stroke]{stroke:var(--strong-edge)}";

/// The style of the page of `memreel view`, which begins with its colours and fonts.
const OF_VIEW: &str = include_str!("../../../viewer/style.css");

/// Returns the colours and fonts of the page of `memreel view`, for light and dark.
fn tokens() -> &'static str {
    let from = OF_VIEW.find(":root {").unwrap_or(0);
    OF_VIEW[from..].split_inclusive("}\n").next().unwrap_or_default()
}

/// Returns a page as one HTML file, without scripts and network access.
pub(super) fn html(title: &str, parts: &[Part]) -> String {
    let body: String = parts.iter().map(html_of).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{}{STYLE}</style></head>\
         <body>\n{body}</body></html>\n",
        escape_xml(title),
        tokens()
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
                    .map_or_else(String::new, |advice| format!("<span>{}</span>", escape_xml(advice)));
                format!("<li>{}{advice}</li>\n", escape_xml(finding))
            };
            format!("<ol>\n{}</ol>\n", items.iter().map(item).collect::<String>())
        }
        Part::Table(heads, rows) => {
            let cells = |tag: &str, cells: &[String]| -> String {
                cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_xml(cell))).collect()
            };
            let named: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
            let has_heads = heads.iter().any(|head| !head.is_empty());
            let head = if has_heads { format!("<tr>{}</tr>\n", cells("th", &named)) } else { String::new() };
            let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
            format!("<div class=\"table\"><table>\n{head}{rows}</table></div>\n")
        }
        Part::Plot { svg, .. } => svg.clone(),
        Part::Folded(title, part) => {
            // A picture is what readers look for.
            let open = if matches!(**part, Part::Plot { .. }) { " open" } else { "" };
            format!("<details{open}><summary>{}</summary>\n{}</details>\n", escape_xml(title), html_of(part))
        }
    }
}
