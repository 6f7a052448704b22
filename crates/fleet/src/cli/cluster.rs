//! `memreel-fleet scheduler` and `memreel-fleet executor`: the programs of a cluster.

use std::{net::SocketAddr, thread::available_parallelism};

use super::{
    args::{ExecutorWords, SchedulerWords},
    exit::{Exit, Failure},
};
use crate::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};

pub(super) async fn scheduler(words: &SchedulerWords) -> Result<Exit, Failure> {
    log();
    let listen = SocketAddr::new(words.listen, words.port);
    let options =
        SchedulerOptions { listen, host: words.host.clone(), executor_timeout_s: words.executor_timeout };
    let SchedulerWords { host, port, .. } = words;
    let ready = || eprintln!("memreel-fleet: scheduler df://{host}:{port} listens on {listen}");
    run_scheduler(options, ready).await?;
    Ok(Exit::Fine)
}

pub(super) async fn executor(words: &ExecutorWords) -> Result<Exit, Failure> {
    log();
    let parent = words.folder.clone().unwrap_or_else(std::env::temp_dir);
    let made = std::fs::create_dir_all(&parent)
        .and_then(|()| tempfile::Builder::new().prefix("memreel-fleet-").tempdir_in(&parent));
    // It goes away when the executor ends.
    let folder =
        made.map_err(|error| Failure::unreadable(format!("cannot write to {}: {error}", parent.display())))?;
    let all = available_parallelism().map_or(1, usize::from);
    let options = ExecutorOptions {
        scheduler: words.scheduler.clone(),
        listen: words.listen,
        port: words.port,
        host: words.host.clone(),
        n_cores: words.cores.map_or(all, usize::from),
        folder: folder.path().to_owned(),
        heartbeat_s: words.heartbeat,
    };
    let ExecutorWords { scheduler, listen, port, .. } = words;
    let ready =
        || eprintln!("memreel-fleet: executor for {scheduler} listens on {listen}:{port} and the next port");
    run_executor(options, ready).await?;
    Ok(Exit::Fine)
}

/// Prints what Ballista reports; `RUST_LOG` chooses what.
fn log() {
    let filter = env_logger::Env::default().default_filter_or("warn");
    // A program that uses this library may have a logger already.
    let _ = env_logger::Builder::from_env(filter).try_init();
}
