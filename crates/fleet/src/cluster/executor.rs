//! `memreel-fleet executor`: Ballista's executor, which reads our files.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::error::{DataFusionError, Result};

use super::{
    Cluster, MESSAGE_BYTES,
    scan_codec::ScanCodec,
    scheduler::{failed, is_free, session},
    session::config,
    table_codec::TableCodec,
};
/// The settings of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The scheduler, as `df://host:port`.
    pub scheduler: String,
    /// The address it listens on, for results; tasks come to the port after it.
    pub listen: IpAddr,
    /// The port for results.
    pub port: u16,
    /// The name by which the scheduler, other executors and clients reach this machine.
    pub host: String,
    /// How many partitions are read at once.
    pub n_cores: usize,
    /// Where the parts of answers are until the query ends.
    pub folder: PathBuf,
    /// How often it reports to the scheduler.
    pub heartbeat_s: u64,
}

/// Runs an executor until it is asked to end: by SIGTERM, by Ctrl-C, or by the scheduler. `ready` is called once, before it
/// begins.
///
/// # Errors
/// No scheduler answers, one of the two ports is in use, or Ballista fails.
pub async fn run_executor(options: ExecutorOptions, ready: impl FnOnce()) -> Result<()> {
    let scheduler = Cluster::parse(&options.scheduler)?;
    scheduler.has_executors().await?;
    let grpc_port = options.port.checked_add(1).ok_or_else(|| {
        DataFusionError::Configuration("the port after the one of --port must also be valid".to_owned())
    })?;
    is_free(SocketAddr::new(options.listen, options.port)).await?;
    is_free(SocketAddr::new(options.listen, grpc_port)).await?;
    let functions = BallistaFunctionRegistry::from(&session(config())?);
    let config = ExecutorProcessConfig {
        bind_host: options.listen.to_string(),
        external_host: Some(options.host),
        port: options.port,
        grpc_port,
        scheduler_host: scheduler.host().to_owned(),
        scheduler_port: scheduler.port(),
        vcores: options.n_cores,
        work_dir: Some(options.folder.display().to_string()),
        // Where the scheduler has not removed it, such as when it has ended.
        job_data_clean_up_interval_seconds: 600,
        job_data_ttl_seconds: 3600,
        executor_heartbeat_interval_seconds: options.heartbeat_s,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        override_config_producer: Some(Arc::new(config)),
        override_function_registry: Some(Arc::new(functions)),
        override_logical_codec: Some(Arc::new(TableCodec::default())),
        override_physical_codec: Some(Arc::new(ScanCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    ready();
    start_executor_process(Arc::new(config)).await.map_err(failed)
}
