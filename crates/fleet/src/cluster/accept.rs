//! Which queries a cluster runs: Ballista 55 answers some shapes of plans wrongly, or never, and these are refused.

use datafusion::{
    common::{
        not_impl_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::source_as_provider,
    error::Result,
    logical_expr::{Expr, Join, JoinType, LogicalPlan, TableScan},
};

use crate::plan::FleetTable;

/// What the messages end with.
const INSTEAD: &str = "run the query without --ballista, or in parts";

/// Refuses a query, given its plan as written and as optimised.
///
/// A task of Ballista has some partitions of its inputs, but the whole of an input that is one partition. So
///
/// - each task runs every part of a `UNION` whose parts are one partition, such as two counts;
/// - each task of a join without an equality has its own idea of which rows on the collected side found none;
/// - a subquery with several rows, where one value is wanted, becomes a join that nothing checks.
pub(super) fn accept(written: &LogicalPlan, optimised: &LogicalPlan) -> Result<()> {
    written.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| match expression {
                Expr::ScalarSubquery(query) if query.subquery.max_rows() != Some(1) => not_impl_err!(
                    "a cluster cannot run a subquery that may return several rows in place of a value; \
                     {INSTEAD}"
                ),
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    optimised.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Union(_) => return not_impl_err!("a cluster cannot run UNION; {INSTEAD}"),
            LogicalPlan::RecursiveQuery(_) => {
                return not_impl_err!(
                    "a cluster cannot run recursion; \
                     {INSTEAD}"
                );
            }
            LogicalPlan::Join(join) if is_scattered(join) => {
                return not_impl_err!(
                    "a cluster cannot run a {} join or EXISTS without an equality; {INSTEAD}",
                    join.join_type
                );
            }
            LogicalPlan::TableScan(scan) if !is_ours(scan) && !is_of_schema(scan) => {
                return not_impl_err!("a cluster cannot read {}; {INSTEAD}", scan.table_name);
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether rows of a join's collected side are matched in several tasks that do not know of each other.
fn is_scattered(join: &Join) -> bool {
    let is_of_one_task = join.right.max_rows() == Some(1);
    let is_of_rows = matches!(join.join_type, JoinType::Inner | JoinType::Right);
    join.on.is_empty() && !is_of_rows && !is_of_one_task
}

/// Returns whether a plan reads files.
pub(super) fn reads_files(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if is_ours(scan));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_ours(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| provider.is::<FleetTable>())
}

/// The tables about tables, which Ballista reads here.
fn is_of_schema(scan: &TableScan) -> bool {
    scan.table_name.schema() == Some("information_schema")
}
