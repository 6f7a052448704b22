//! Activates triggers.
#![forbid(unsafe_code)]

use std::{io, sync::Arc};

use crate::trigger::{
    thread::{exit, panic, registry, requests::BELL, signal, worker},
    when::{
        armed::{Armed, Source},
        triggers::Triggers,
    },
};
use memreel_snapshot::words::{Error, Result};

/// Activates triggers until the result is dropped. Signal and panic handlers remain for the life of the process.
///
/// # Errors
/// [`Error::is_invalid_option`] for an unknown placeholder and for values that can never fire; [`Error::is_io`] if a
/// handler cannot be installed or the thread cannot be started.
pub(crate) fn arm(triggers: &Triggers, source: Source) -> Result<Arc<Armed>> {
    let template = triggers.check()?.absolute();
    let cannot = |error: io::Error| {
        Error::io("cannot start the triggers, a signal handler or a thread, of", &triggers.file, error)
    };
    let armed = Arc::new(Armed::new(triggers.clone(), template, source));
    if triggers.needs_thread() {
        worker::start().map_err(cannot)?;
    }
    triggers.signals.iter().try_for_each(|signal| signal::install(*signal)).map_err(cannot)?;
    exit::install();
    if triggers.exit {
        exit::want();
    }
    if triggers.panic {
        panic::install();
    }
    registry::add(&armed);
    // The thread must learn when this set is due.
    BELL.increase();
    Ok(armed)
}

/// Starts the thread again in a child of `fork`, where it does not exist, if a set of triggers needs it.
pub(crate) fn revive() {
    worker::revive();
}
