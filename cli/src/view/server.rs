//! The server of the page: threads that read the files and answer, and one that waits for requests.

#![forbid(unsafe_code)]

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use super::{
    bundle,
    http::{self, Door, Question},
    pack,
    reading::Source,
    recording::Recording,
    route::Files,
    token,
};

/// The number of threads that answer.
const N_ANSWERING: usize = 2;

/// What is served, and how long.
pub(crate) struct Serving {
    pub(crate) paths: Vec<PathBuf>,
    /// 0 lets the system choose.
    pub(crate) port: u16,
    /// The server ends after this time without a request.
    pub(crate) idle: Option<Duration>,
}

/// Serves until the page ends it, or until no request came for the time of `idle`. `begin` is called with the address of the
/// page.
pub(crate) fn serve(serving: Serving, begin: impl FnOnce(&str, u16)) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, serving.port))?;
    let port = listener.local_addr()?.port();
    let token = token::new()?;
    begin(&format!("http://127.0.0.1:{port}/{token}/"), port);
    let sources: Vec<Source> = serving.paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings };
    let (ask, asked) = mpsc::channel();
    let (asked, is_over) = (Mutex::new(asked), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| read(&files, &is_over));
        for _ in 0..N_ANSWERING {
            scope.spawn(|| answer(&files, &asked));
        }
        // The threads that answer end when the door, which has the sender, is gone.
        let served = http::serve(listener, Door { token, ask, idle: serving.idle });
        is_over.store(true, Ordering::Relaxed);
        served
    })
}

/// Returns one page that has the files in it, as far as there is room for them.
///
/// # Errors
/// A file cannot be read; the text has its name.
pub(crate) fn html(paths: &[PathBuf]) -> Result<String, String> {
    let sources: Vec<Source> = paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings };
    read(&files, &AtomicBool::new(false));
    let failed = sources.iter().find_map(|source| Some((source, source.snapshot.get()?.as_ref().err()?)));
    if let Some((source, why)) = failed {
        return Err(format!("{}: {why}", source.name));
    }
    let pack = pack::pack(&files).map_err(|error| error.to_string())?;
    bundle::html(&pack)
}

/// Reads the files, one after the other.
fn read<'a>(files: &Files<'a>, is_over: &AtomicBool) {
    for (source, recording) in files.sources.iter().zip(files.recordings) {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        source.read();
        if let Some(Ok(snapshot)) = source.snapshot.get() {
            recording.get_or_init(|| Recording::new(snapshot));
        }
    }
}

fn answer(files: &Files<'_>, asked: &Mutex<Receiver<Question>>) {
    loop {
        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Question { asked, reply }) = next else { return };
        // A page that is closed waits for no answer.
        if !reply.is_closed() {
            let _answered = reply.send(files.answer(&asked));
        }
    }
}
