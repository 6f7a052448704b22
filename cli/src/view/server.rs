//! The server of the page: threads that read the files and answer, and one that waits for requests.

#![forbid(unsafe_code)]

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    panic::{self, AssertUnwindSafe},
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

/// The number of threads that answer questions about one moment or block, and of those that answer the others: a list or a
/// replay does not keep the page waiting.
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
    let listener = listener(serving.port)?;
    let port = listener.local_addr()?.port();
    let token = token::new()?;
    begin(&format!("http://127.0.0.1:{port}/{token}/"), port);
    let sources: Vec<Source> = serving.paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings };
    let ((ask, asked), (ask_long, asked_long)) = (mpsc::channel(), mpsc::channel());
    let queues = [asked, asked_long].map(Mutex::new);
    let is_read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            read(&files);
            is_read.store(true, Ordering::Relaxed);
        });
        for queue in &queues {
            for _ in 0..N_ANSWERING {
                scope.spawn(|| answer(&files, queue));
            }
        }
        // The threads that answer end when the door, which has the senders, is gone.
        let served = http::serve(listener, Door { token, ask, ask_long, idle: serving.idle });
        if served.is_ok() && !is_read.load(Ordering::Relaxed) {
            // Nothing can stop the thread that reads, such as one that waits for a pipe.
            std::process::exit(0);
        }
        served
    })
}

/// Opens a port for the page; 0 lets the system choose.
pub(crate) fn listener(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Returns one page that has the files in it, as far as there is room for them.
///
/// # Errors
/// A file cannot be read; the text has its name.
pub(crate) fn html(paths: &[PathBuf]) -> Result<String, String> {
    let sources: Vec<Source> = paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings };
    read(&files);
    let failed = sources.iter().find_map(|source| Some((source, source.failure()?)));
    if let Some((source, why)) = failed {
        return Err(format!("{}: {why}", source.name));
    }
    let pack = pack::pack(&files, pack::MAX_BYTES).map_err(|error| error.to_string())?;
    bundle::html(&pack)
}

/// Reads the files, one after the other.
fn read<'a>(files: &Files<'a>) {
    for (source, recording) in files.sources.iter().zip(files.recordings) {
        let defect = || "reading failed; this is a defect of memreel".to_owned();
        // The other files are still shown.
        let read = panic::catch_unwind(AssertUnwindSafe(|| {
            source.read();
            let Some(Ok(snapshot)) = source.snapshot.get() else { return };
            recording.get_or_init(|| Recording::new(snapshot));
        }));
        if read.is_err() {
            source.fail(defect());
        }
    }
}

fn answer(files: &Files<'_>, asked: &Mutex<Receiver<Question>>) {
    loop {
        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Question { request, reply }) = next else { return };
        // A page that is closed waits for no answer.
        if reply.is_closed() {
            continue;
        }
        // The page of a failed answer shows that it failed; the thread answers the next question.
        if let Ok(answer) = panic::catch_unwind(AssertUnwindSafe(|| files.answer(&request))) {
            let _answered = reply.send(answer);
        }
    }
}
