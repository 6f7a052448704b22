//! `memreel-fleet scheduler`: Ballista's scheduler, which knows our tables.

use std::{net::SocketAddr, sync::Arc};

use ballista_core::{error::BallistaError, utils::default_session_builder};
use ballista_scheduler::{
    cluster::BallistaCluster, config::SchedulerConfig, scheduler_process::start_server,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{FunctionRegistry, SessionState, SessionStateDefaults},
    prelude::SessionConfig,
};
use tokio::net::TcpListener;

use super::{MESSAGE_BYTES, scan_codec::ScanCodec, session::config, table_codec::TableCodec};
use crate::functions::all_functions;

/// The settings of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The address it listens on.
    pub listen: SocketAddr,
    /// The name by which executors and clients reach this machine.
    pub host: String,
    /// An executor that was silent for so long is lost, and its tasks run elsewhere.
    pub executor_timeout_s: u64,
}

/// Runs a scheduler until the process ends. `ready` is called once, before the first query can come.
///
/// # Errors
/// The port is in use, or Ballista fails.
pub async fn run_scheduler(options: SchedulerOptions, ready: impl FnOnce()) -> Result<()> {
    is_free(options.listen).await?;
    let every_s = (options.executor_timeout_s / 4).max(1);
    let config = SchedulerConfig {
        bind_host: options.listen.ip().to_string(),
        bind_port: options.listen.port(),
        external_host: options.host,
        executor_timeout_seconds: options.executor_timeout_s,
        expire_dead_executor_interval_seconds: every_s,
        // A client asks for the counters of its query at once; what is kept of one takes some megabytes.
        finished_job_state_clean_up_interval_seconds: 300,
        no_executors_grace_period_seconds: options.executor_timeout_s,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(session)),
        override_logical_codec: Some(Arc::new(TableCodec::default())),
        override_physical_codec: Some(Arc::new(ScanCodec::default())),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    ready();
    start_server(cluster, options.listen, Arc::new(config)).await.map_err(failed)
}

/// Returns a session with all functions of DataFusion and ours.
pub(super) fn session(config: SessionConfig) -> Result<SessionState> {
    let mut state = default_session_builder(config)?;
    for function in SessionStateDefaults::default_scalar_functions().into_iter().chain(all_functions()) {
        state.register_udf(function)?;
    }
    Ok(state)
}

/// Fails if another program listens on an address.
pub(super) async fn is_free(address: SocketAddr) -> Result<()> {
    let bound = TcpListener::bind(address).await;
    let taken = |error| {
        DataFusionError::Execution(format!("cannot listen on {address}: {error}; choose another --port"))
    };
    bound.map(drop).map_err(taken)
}

pub(super) fn failed(error: BallistaError) -> DataFusionError {
    DataFusionError::Execution(error.to_string())
}
