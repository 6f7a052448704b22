//! Text for people: names, sizes, tables and pictures of characters, as wide as the terminal and in its colours.

#![forbid(unsafe_code)]

pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod diff_command;
pub(crate) mod fit;
pub(crate) mod json;
pub(crate) mod labels;
pub(crate) mod names;
mod owner_stacks;
pub(crate) mod owner_table;
mod pieces;
pub(crate) mod plot;
pub(crate) mod pool_table;
mod page;
mod progress;
pub(crate) mod rest;
mod segment_rows;
pub(crate) mod share;
mod shown;
mod site_text;
pub(crate) mod sites;
pub(crate) mod situations;
pub(crate) mod stream_table;
mod table;
pub(crate) mod warnings;

pub(crate) use bytes::Bytes;
pub(crate) use fit::{print_text, print_wrapped};
pub(crate) use json::{List, WithList, WithRest, print_line};
pub(crate) use page::Page;
pub(crate) use pieces::{
    clean, clean_base_name, clean_display, count, escape_xml, of_it_pending, percent, shell_word,
    used_and_pending,
};
pub(crate) use progress::{Progress, Waiting};
pub(crate) use shown::ShownPath;
pub(crate) use sites::Sites;
pub(crate) use table::Table;
pub(crate) use warnings::print_warnings;
