//! Which filters of a query the reader checks, and the conditions that they become.

use datafusion::{
    catalog::Session,
    common::{DFSchema, tree_node::TreeNode},
    error::Result,
    logical_expr::Expr,
};

use crate::{
    columns::{Table, Texts, schema_of},
    sink::Condition,
};

/// Returns the condition of a filter. The optimiser may have simplified one that [`is_for_reader`] accepted, even to a
/// filter without columns.
pub(super) fn condition(
    table: Table,
    texts: Texts,
    filter: &Expr,
    session: &dyn Session,
) -> Result<Condition> {
    let names = filter.column_refs();
    let columns: Vec<_> =
        table.columns().filter(|column| names.iter().any(|name| name.name == column.name)).collect();
    let schema = schema_of(columns.iter().copied(), texts);
    // The schema has no names of tables, so those of the columns are dropped.
    let bare = datafusion::logical_expr::expr_rewriter::unnormalize_col(filter.clone());
    let expression = session.create_physical_expr(bare, &DFSchema::try_from(schema.clone())?)?;
    Ok(Condition { columns: columns.iter().map(|column| column.name).collect(), expression, schema })
}

/// Whether the reader can check a filter: it has columns that are not costly, and no subqueries.
pub(crate) fn is_for_reader(table: Table, filter: &Expr) -> bool {
    let is_simple = |name: &str| table.column(name).is_some_and(|column| !column.is_costly);
    let columns = filter.column_refs();
    let is_of_engine = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        )
    };
    let has_other = filter.exists(|expr| Ok(is_of_engine(expr))).unwrap_or(true);
    !columns.is_empty()
        && !has_other
        && !filter.is_volatile()
        && columns.iter().all(|column| is_simple(&column.name))
}
