//! How many files are read, on a terminal's standard error, once a command has taken more than a second.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use crate::Fleet;

/// A bar that goes away when it is dropped.
pub(super) struct Progress(Option<(JoinHandle<()>, ProgressBar)>);

impl Progress {
    pub(super) fn of(fleet: &Arc<Fleet>, times: usize) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::hidden();
        let (fleet, shown) = (fleet.clone(), bar.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            shown.set_length((fleet.files().len() * times) as u64);
            let template = match fleet.is_remote() {
                true => "{spinner} {len} files on the cluster, {elapsed}",
                false => "{bar:40} {pos} of {len} files, {eta} left",
            };
            let style = ProgressStyle::with_template(template);
            shown.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            shown.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            loop {
                shown.set_position(fleet.n_read() as u64);
                shown.tick();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Progress(Some((task, bar)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((task, bar)) = self.0.take() {
            task.abort();
            bar.finish_and_clear();
        }
    }
}
