//! `TableCodec`: our tables in a logical plan, from the client to the scheduler.

use std::sync::Arc;

use ballista_core::serde::BallistaLogicalExtensionCodec;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::TableProvider,
    common::TableReference,
    datasource::file_format::FileFormatFactory,
    error::Result,
    execution::TaskContext,
    logical_expr::{Extension, LogicalPlan},
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;

use super::message::{self, TableMessage};
use crate::{columns::Texts, plan::FleetTable};

/// Writes and reads our tables; the rest of a plan is Ballista's.
#[derive(Debug, Default)]
pub(super) struct TableCodec(BallistaLogicalExtensionCodec);

impl LogicalExtensionCodec for TableCodec {
    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        if !message::is_ours(bytes) {
            return self.0.try_decode_table_provider(bytes, name, schema, context);
        }
        let (table, at, files) = message::read::<TableMessage>(bytes)?.open()?;
        Ok(Arc::new(FleetTable { table, at, texts: Texts::Plain, files, problems: Arc::default() }))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        provider: Arc<dyn TableProvider>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        match provider.downcast_ref::<FleetTable>() {
            Some(table) => {
                message::write(&TableMessage::new(table.table, table.at, table.files.iter()), buffer)
            }
            None => self.0.try_encode_table_provider(name, provider, buffer),
        }
    }

    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.0.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode(node, buffer)
    }

    fn try_decode_file_format(
        &self,
        bytes: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, buffer: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.0.try_encode_file_format(buffer, node)
    }
}
