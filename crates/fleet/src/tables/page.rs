//! The text of `memreel-fleet tables`, made of the tables.

use std::fmt::Write;

use crate::columns::Table;

/// Returns the tables with their columns, as Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for table in Table::ALL {
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", table.name(), table.meaning());
        page.push_str("| column | type | meaning |\n| --- | --- | --- |\n");
        for column in table.columns() {
            let _ = writeln!(page, "| `{}` | {} | {} |", column.name, column.kind.name(), column.meaning);
        }
    }
    page
}

const HEAD: &str = "\
# The tables of memreel-fleet

`memreel-fleet query` has these tables over all files of its command line, and `memreel-fleet export` writes each of them as
Parquet files: `TABLE/job=JOB/rank=RANK/NAME.parquet`, one for each snapshot, with all columns in the file too. A missing rank is
`rank=__HIVE_DEFAULT_PARTITION__` in the path. `docs/fleet.md` has the functions and examples.

Every column may be null. Types are Arrow's: *text* is a dictionary of UTF-8 with numbers of 32 bits, in Parquet a string.
Columns that the Python package has too have the same names, with two exceptions: what is `stack` there is `stack_id` here,
because `stack` is the text, and what is `file` of its stacks is `filename` here.

Bytes are unsigned, and a difference below 0 wraps around: write `cast(peak_bytes as bigint) - …`.

Functions: `live_at(file, event)` and `peak(file)` are tables, `stack_contains(stack, 'text')`, `top_frame(stack)` and
`metadata(scope, 'key')`, a value of a dictionary in `user_metadata`, are values; with native stacks `top_frame(site)` is the frame of the program.
";
