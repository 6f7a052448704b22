//! A session whose queries run on a cluster.

use std::{sync::Arc, time::Duration};

use ballista::extension::SessionContextExt;
use ballista_core::extension::SessionConfigExt;
use datafusion::{
    error::{DataFusionError, Result},
    execution::SessionStateBuilder,
    logical_expr::LogicalPlan,
    prelude::{SessionConfig, SessionContext},
};
use reqwest::StatusCode;
use url::Url;

use super::{
    MESSAGE_BYTES,
    accept::{accept, reads_files},
    scan_codec::ScanCodec,
    table_codec::TableCodec,
};
use crate::files::usage;

/// The scheduler's port, if its address names none.
pub(super) const PORT: u16 = 50050;

/// How long a scheduler may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A cluster: the address of its scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    host: String,
    port: u16,
}

impl Cluster {
    /// Reads an address such as `df://host:50050`.
    pub(crate) fn parse(address: &str) -> Result<Cluster> {
        let url = Url::parse(address).ok().filter(|url| url.scheme() == "df");
        let Some(url) = url.as_ref().filter(|url| url.has_host()) else {
            return Err(usage(format!(
                "{address} is not the address of a scheduler; use for example df://localhost:{PORT}"
            )));
        };
        let host = url.host_str().unwrap_or_default().to_owned();
        Ok(Cluster { host, port: url.port().unwrap_or(PORT) })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Asks the scheduler whether it has executors.
    ///
    /// # Errors
    /// No scheduler answers.
    pub(crate) async fn has_executors(&self) -> Result<bool> {
        let failed = |error: reqwest::Error| {
            DataFusionError::Execution(format!(
                "no scheduler at {self}: {}; start one with memreel-fleet scheduler",
                innermost(&error)
            ))
        };
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().map_err(failed)?;
        let answer = client.get(format!("{}/readyz", self.endpoint())).send().await.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => Ok(true),
            StatusCode::SERVICE_UNAVAILABLE => Ok(false),
            status => Err(DataFusionError::Execution(format!(
                "no scheduler at {self}, but a server that answers {status}"
            ))),
        }
    }

    /// Returns a session without tables whose plans go to the scheduler.
    pub(crate) async fn session(&self) -> Result<SessionContext> {
        if !self.has_executors().await? {
            return Err(DataFusionError::Execution(format!(
                "the scheduler at {self} has no executors; start one with memreel-fleet executor {self}"
            )));
        }
        let state = SessionStateBuilder::new().with_default_features().with_config(config()).build();
        SessionContext::remote_with_state(&self.to_string(), state).await
    }

    /// Refuses a query that Ballista would not answer rightly. Returns whether it needs the cluster, because it reads files.
    pub(crate) fn accept(&self, written: &LogicalPlan, optimised: &LogicalPlan) -> Result<bool> {
        let reads_files = reads_files(optimised)?;
        if reads_files {
            accept(written, optimised)?;
        }
        Ok(reads_files)
    }

    /// Returns the address that Ballista's own client connects to.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }
}

impl std::fmt::Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "df://{}:{}", self.host, self.port)
    }
}

/// Returns the first cause of an error: `Connection refused`, where the error itself names an address.
fn innermost(error: &dyn std::error::Error) -> &dyn std::error::Error {
    error.source().map_or(error, innermost)
}

/// Returns the settings that the client, the scheduler and the executors of a cluster share.
pub(super) fn config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_logical_extension_codec(Arc::new(TableCodec::default()))
        .with_ballista_physical_extension_codec(Arc::new(ScanCodec::default()))
        // Its rule for empty inputs leaves outer joins with one waiting forever.
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_has_a_host_and_a_port() {
        for (address, expected) in [
            ("df://node1", Some("df://node1:50050")),
            ("df://node1:7", Some("df://node1:7")),
            ("df://[::1]:7", Some("df://[::1]:7")),
            ("node1:50050", None),
            ("http://node1:50050", None),
            ("df://", None),
            ("", None),
        ] {
            let found = Cluster::parse(address).ok().map(|cluster| cluster.to_string());
            assert_eq!(found.as_deref(), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn a_missing_scheduler_is_named() {
        // No server has port 1.
        let message =
            Cluster::parse("df://127.0.0.1:1").unwrap().has_executors().await.unwrap_err().to_string();
        assert!(
            message.contains("df://127.0.0.1:1") && message.contains("memreel-fleet scheduler"),
            "{message}"
        );
    }
}
