//! What executors report of the files that they read: counters of the job, which the scheduler has.

use std::sync::Arc;

use ballista_core::{
    execution_plans::DistributedQueryExec,
    serde::protobuf::{
        CancelJobParams, GetJobMetricsParams, operator_metric::Metric,
        scheduler_grpc_client::SchedulerGrpcClient,
    },
    utils::create_grpc_client_endpoint,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::protobuf::LogicalPlanNode;
use tonic::transport::Channel;

use super::{Cluster, MESSAGE_BYTES};
use crate::{
    plan::{Problem, Problems},
    sink::{FILES_BROKEN, FILES_READ},
};

impl Cluster {
    /// Adds to `problems` what the executors found while they ran a plan, or that the scheduler does not report it.
    pub(crate) async fn learn(&self, plan: &Arc<dyn ExecutionPlan>, problems: &Problems) {
        let Some(job_id) = job_id(plan) else { return };
        let counts = match self.counts(job_id).await {
            Ok(counts) => counts,
            Err(why) => {
                let what = format!("it does not report which files were skipped: {why}");
                return problems.add(Problem::Incomplete { file: self.to_string(), what });
            }
        };
        let (mut n_read, mut n_broken) = (0, 0);
        for (name, n) in counts {
            match &*name {
                FILES_READ => n_read += n,
                FILES_BROKEN => n_broken += n,
                _ => problems.add_counter(&name),
            }
        }
        problems.add_read_elsewhere(n_read.saturating_sub(n_broken));
    }

    /// Has the scheduler give up the query of a plan.
    pub(crate) async fn cancel(&self, plan: &Arc<dyn ExecutionPlan>) {
        // A query that cannot be given up ends by itself.
        if let (Some(job_id), Ok(mut scheduler)) = (job_id(plan), self.client().await) {
            let _ = scheduler.cancel_job(CancelJobParams { job_id }).await;
        }
    }

    async fn client(&self) -> Result<SchedulerGrpcClient<Channel>, String> {
        let endpoint =
            create_grpc_client_endpoint(self.endpoint(), None).map_err(|error| error.to_string())?;
        let connection = endpoint.connect().await.map_err(|error| error.to_string())?;
        Ok(SchedulerGrpcClient::new(connection).max_decoding_message_size(MESSAGE_BYTES as usize))
    }

    /// Returns the counters of all operators of a query that has run.
    async fn counts(&self, job_id: String) -> Result<Vec<(String, u64)>, String> {
        let mut scheduler = self.client().await?;
        let answer = scheduler.get_job_metrics(GetJobMetricsParams { job_id }).await;
        let stages = answer.map_err(|error| error.message().to_owned())?.into_inner().stages;
        let operators = stages.into_iter().flat_map(|stage| stage.operators);
        let counts =
            operators.flat_map(|operator| operator.metrics).filter_map(|metric| match metric.metric {
                Some(Metric::Count(count)) => Some((count.name, count.value)),
                _ => None,
            });
        Ok(counts.collect())
    }
}

/// Returns the scheduler's name for the query of a plan that has run.
fn job_id(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(query) = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>() {
        return query.job_id().map(|job_id| job_id.to_string());
    }
    plan.children().into_iter().find_map(job_id)
}
