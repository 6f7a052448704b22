//! `ScanCodec`: our scans in a physical plan, from the scheduler to the executors.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::{
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::ExecutionPlan,
};
use datafusion_proto::{
    physical_plan::{
        PhysicalExtensionCodec, PhysicalProtoConverterExtension, from_proto::parse_physical_expr,
        to_proto::serialize_physical_expr,
    },
    protobuf::PhysicalExprNode,
};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::message::{self, broken};
use crate::{
    columns::{Table, Texts, schema_of},
    plan::Scan,
    sink::{Condition, Wanted},
    tables::At,
};

/// Writes and reads our scans; the rest of a plan is Ballista's.
#[derive(Debug, Default)]
pub(super) struct ScanCodec(BallistaPhysicalExtensionCodec);

/// What is read of the files, whose list is the scan's input.
#[derive(Serialize, Deserialize)]
struct ScanMessage {
    table: String,
    at: Option<At>,
    /// How many files the table has.
    n_all: usize,
    columns: Vec<String>,
    /// The columns of each condition, and its expression as DataFusion writes it.
    conditions: Vec<(Vec<String>, Vec<u8>)>,
    limit: Option<usize>,
    batch_rows: usize,
}

impl PhysicalExtensionCodec for ScanCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !message::is_ours(bytes) {
            return self.0.try_decode(bytes, inputs, context, converter);
        }
        let message: ScanMessage = message::read(bytes)?;
        let table = message::table(&message.table)?;
        let [input] = inputs else { return Err(broken(&"a scan has one list of files")) };
        let columns = names(table, &message.columns)?;
        let schema = schema(table, &columns);
        let mut conditions = Vec::new();
        for (columns, expression) in &message.conditions {
            let columns = names(table, columns)?;
            let schema = self::schema(table, &columns);
            let node = PhysicalExprNode::decode(&expression[..]).map_err(|error| broken(&error))?;
            let expression = parse_physical_expr(&node, context, &schema, self)?;
            conditions.push(Condition { columns, expression, schema });
        }
        let ScanMessage { limit, batch_rows, at, n_all, .. } = message;
        let wanted = Arc::new(Wanted { columns, texts: Texts::Plain, schema, conditions, limit, batch_rows });
        let n_at_once = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(Scan::new((table, at), (input.clone(), n_all), wanted, Arc::default(), n_at_once)))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<Scan>() else {
            return self.0.try_encode(node, buffer, converter);
        };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut conditions = Vec::new();
        for Condition { columns, expression, .. } in &scan.wanted.conditions {
            let node = serialize_physical_expr(expression, self)?;
            conditions.push((owned(columns), node.encode_to_vec()));
        }
        let message = ScanMessage {
            table: scan.table.name().to_owned(),
            at: scan.at,
            n_all: scan.n_all,
            columns: owned(&scan.wanted.columns),
            conditions,
            limit: scan.wanted.limit,
            batch_rows: scan.wanted.batch_rows,
        };
        message::write(&message, buffer)
    }
}

/// Returns the names of columns as the table has them.
fn names(table: Table, names: &[String]) -> Result<Vec<&'static str>, DataFusionError> {
    let known = |name: &String| table.column(name).map(|column| column.name);
    names
        .iter()
        .map(|name| known(name).ok_or_else(|| broken(&format!("{} has no column {name}", table.name()))))
        .collect()
}

fn schema(table: Table, names: &[&'static str]) -> datafusion::arrow::datatypes::SchemaRef {
    schema_of(names.iter().filter_map(|name| table.column(name)), Texts::Plain)
}
