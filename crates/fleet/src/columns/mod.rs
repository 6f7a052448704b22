//! What a table is made of: names, columns with their types, and arrays of them.

mod arrays;
mod column;
mod rows;
mod table;

pub(crate) use arrays::{booleans, integers, numbered_texts, same_text, texts, unsigned};
pub use column::{Column, Kind};
pub(crate) use column::{OF_FILE, Texts, column, costly, schema as schema_of, typed};
pub(crate) use rows::Rows;
pub use table::Table;
