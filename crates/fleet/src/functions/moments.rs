//! `live_at(file, event)` and `peak(file)`: the allocations that are in use at a moment.

use std::sync::Arc;

use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{ScalarValue, plan_err},
    error::Result,
    logical_expr::Expr,
};

use crate::{
    files::{Content, SourceFile},
    plan::FleetTable,
    tables::At,
};

/// `live_at(file, event)`: the allocations in use after an event.
#[derive(Debug)]
pub(crate) struct LiveAt(pub(crate) FleetTable);

/// `peak(file)`: the allocations in use at the peak; without a file those of all files, each at its own peak.
#[derive(Debug)]
pub(crate) struct Peak(pub(crate) FleetTable);

impl TableFunctionImpl for LiveAt {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let [file, event] = arguments.exprs() else {
            return plan_err!("live_at takes a file and an event number: live_at('rank0.pickle', 1000)");
        };
        match literal(event) {
            Some(ScalarValue::Int64(Some(event))) if *event >= 0 => {
                table(&self.0, Some(file), At::Event(event.unsigned_abs()))
            }
            Some(ScalarValue::UInt64(Some(event))) => table(&self.0, Some(file), At::Event(*event)),
            _ => plan_err!("the second argument of live_at is an event number, not {event}"),
        }
    }
}

impl TableFunctionImpl for Peak {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        match arguments.exprs() {
            [] => table(&self.0, None, At::Peak),
            [file] => table(&self.0, Some(file), At::Peak),
            _ => plan_err!("peak takes a file, or nothing for all files: peak('rank0.pickle')"),
        }
    }
}

fn literal(argument: &Expr) -> Option<&ScalarValue> {
    if let Expr::Literal(value, _) = argument { Some(value) } else { None }
}

/// Returns the table of the files that an argument names.
fn table(all: &FleetTable, file: Option<&Expr>, at: At) -> Result<Arc<dyn TableProvider>> {
    if !all.files.is_empty() && all.files.iter().all(|file| file.content != Content::Snapshot) {
        return plan_err!("peak and live_at need snapshots, but the files are rows that export wrote");
    }
    let snapshots = all.files.iter().filter(|file| file.content == Content::Snapshot);
    let mut given = "";
    let files: Vec<Arc<SourceFile>> = match file {
        None => snapshots.cloned().collect(),
        Some(argument) => {
            let Some(Some(Some(name))) = literal(argument).map(ScalarValue::try_as_str) else {
                return plan_err!("a file is a text in quotes, not {argument}");
            };
            given = name;
            snapshots.filter(|file| is_named(&file.file, name)).cloned().collect()
        }
    };
    match (files.len(), file) {
        (0, Some(_)) => {
            plan_err!("no snapshot of this query is named {given:?}; the column `file` has the names")
        }
        (2.., Some(_)) => {
            let names: Vec<&str> = files.iter().take(3).map(|file| &*file.file).collect();
            plan_err!("{given:?} is the name of {} files, such as {}", files.len(), names.join(" and "))
        }
        _ => Ok(Arc::new(FleetTable { at: Some(at), files, ..all.clone() })),
    }
}

/// Whether a name is of a file: its whole address or the end of it, from a slash on.
fn is_named(file: &str, name: &str) -> bool {
    let name = name.strip_prefix("./").unwrap_or(name);
    file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
