//! Names that a wrong query may have meant.

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;

use crate::{columns::Table, functions};

/// How alike two names are that may be meant for each other, from 0 to 1.
const ALIKE: f64 = 0.5;

/// Adds to a message the tables, columns and functions that are nearest to the name that it is about.
pub(super) fn with_suggestion(message: &str, sql: &str) -> String {
    let Some(wrong) = wrong_name(message) else { return message.to_owned() };
    let columns = Table::ALL.into_iter().flat_map(|table| {
        table.columns().map(move |column| (column.name, format!("{} of {}", column.name, table.name())))
    });
    let tables = Table::ALL.into_iter().map(|table| (table.name(), format!("the table {}", table.name())));
    let functions = functions::NAMES.into_iter().map(|name| (name, format!("the function {name}")));
    let is_known = |name: &str| sql.to_ascii_lowercase().contains(name);
    let mut near: Vec<(f64, bool, String)> = match is_table(message) {
        true => tables.map(|(name, text)| (likeness(&wrong, name), false, text)).collect(),
        false => columns
            .chain(functions)
            .map(|(name, text)| {
                let of_query = text.rsplit_once(" of ").is_some_and(|(_, table)| is_known(table));
                (likeness(&wrong, name), of_query, text)
            })
            .collect(),
    };
    near.retain(|(likeness, ..)| *likeness >= ALIKE);
    near.sort_by(|one, other| {
        (other.1, other.0).partial_cmp(&(one.1, one.0)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let near: Vec<String> = near.into_iter().take(3).map(|(_, _, text)| text).collect();
    if near.is_empty() {
        let all: Vec<&str> = Table::ALL.into_iter().map(Table::name).collect();
        return format!(
            "{message}\nthe tables are {}; `memreel-fleet tables` lists their columns",
            all.join(", ")
        );
    }
    format!("{message}\ndid you mean: {}? `memreel-fleet tables` lists all", near.join(", "))
}

fn is_table(message: &str) -> bool {
    message.contains("table '")
}

fn likeness(one: &str, other: &str) -> f64 {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    if other.contains(&one) || one.contains(&other) { 0.9 } else { normalized_levenshtein(&one, &other) }
}

/// Returns the last part of the name that an error is about.
fn wrong_name(message: &str) -> Option<String> {
    let starts = ["No field named ", "table '", "Invalid function '"];
    let rest = starts.iter().find_map(|start| Some(message.split_once(start)?.1))?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || "_.\"".contains(*c)).collect();
    let name = name.trim_end_matches('.').rsplit('.').next()?.trim_matches('"').to_owned();
    (!name.is_empty()).then_some(name)
}
