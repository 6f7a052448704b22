//! `memreel view`: what its server answers, and to which requests.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    ops::Deref,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use memreel::{Reel, recorder::Recording};
use memreel_snapshot::pickle;
use serde_json::Value;

use crate::support::{fixture, memreel, stderr};

/// A server of the page, which ends with the test.
pub(crate) struct Server {
    child: Child,
    page: Page,
}

/// The page of a server.
pub(crate) struct Page {
    port: u16,
    /// Its path.
    path: String,
}

impl Deref for Server {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// An answer of HTTP.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Serves with a folder of its own as the current one.
pub(crate) fn serve_in(folder: &Path, words: &[&str]) -> Server {
    let mut command = memreel(&["view", "--no-open", "--print-address"]);
    started(command.args(words).env_remove("SSH_CONNECTION").current_dir(folder))
}

pub(crate) fn serve(words: &[&str]) -> Server {
    let mut command = memreel(&["view", "--no-open", "--print-address"]);
    command.args(words).env_remove("SSH_CONNECTION");
    started(&mut command)
}

fn started(command: &mut Command) -> Server {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    Server::of(child, line.trim_end())
}

impl Server {
    /// A process that has printed the address of its page.
    pub(crate) fn of(child: Child, address: &str) -> Server {
        Server { child, page: Page::at(address) }
    }

    /// Waits until the process has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Page {
    pub(crate) fn at(address: &str) -> Page {
        let rest = address.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{address:?}"));
        let (port, path) = rest.split_once('/').unwrap();
        Page { port: port.parse().unwrap(), path: format!("/{path}") }
    }

    /// Whether something listens at its port.
    pub(crate) fn is_there(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// Sends a request with these headers, and returns the answer.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(stream, "{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn post(&self, path: &str) -> Answer {
        let host = format!("127.0.0.1:{}", self.port);
        self.send("POST", &format!("{}{path}", self.path), &[("Host", &host), ("Content-Length", "0")])
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let host = format!("127.0.0.1:{}", self.port);
        self.send("GET", &format!("{}{path}", self.path), &[("Host", &host)])
    }

    /// Waits until every file is read, and returns the first.
    pub(crate) fn first_file(&self) -> Value {
        let start = Instant::now();
        loop {
            let files = self.get("files").json()["files"].clone();
            let all = files.as_array().unwrap();
            if all.iter().all(|file| file["state"] != "reading") {
                return files[0].clone();
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{files}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_page_and_its_answers_need_the_whole_address() {
    let server = serve(&["torch-2.11/snapshots/oom.pickle"]);
    let host = format!("127.0.0.1:{}", server.port);
    let page = server.get("");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.text().contains("<!doctype html>") || page.text().contains("<!DOCTYPE html>"));
    let policy = page.head.to_lowercase();
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "nosniff", "no-referrer"]
    {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");

    for path in ["/", "/files", "/00000000000000000000000000000000/files", &server.path[..20], "//files"] {
        let answer = server.send("GET", path, &[("Host", &host)]);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert!(!answer.text().contains(&server.path[1..33]));
    }
    let files = format!("{}files", server.path);
    for headers in [
        &[("Host", "example.com")][..],
        &[("Host", "127.0.0.1.example.com:80")],
        &[("Host", &host), ("Origin", "http://example.com")],
        &[("Host", &host), ("Sec-Fetch-Site", "cross-site")],
    ] {
        assert_eq!(server.send("GET", &files, headers).status, 403, "{headers:?}");
    }
    assert_eq!(server.send("POST", &files, &[("Host", &host)]).status, 405);
    assert_eq!(server.send("GET", &files, &[("Host", &host)]).status, 200);
}

#[cfg(target_os = "linux")]
#[test]
fn one_socket_listens_and_only_on_this_machine() {
    let server = serve(&["torch-2.11/snapshots/oom.pickle"]);
    server.first_file();
    let folder = format!("/proc/{}/fd", server.child.id());
    let sockets: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let mut listening = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let table =
            fs::read_to_string(format!("/proc/{}/net/{table}", server.child.id())).unwrap_or_default();
        for line in table.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            const LISTEN: &str = "0A";
            if sockets.iter().any(|socket| socket == columns[9]) && columns[3] == LISTEN {
                listening.push(columns[1].to_owned());
            }
        }
    }
    assert_eq!(listening, [format!("0100007F:{:04X}", server.port)]);
}

#[test]
fn answers_agree_with_the_programs_own() {
    let file = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
    let server = serve(&[file]);
    let device = server.first_file()["devices"][0].clone();
    let n_events = device["n_events"].as_u64().unwrap();
    for event in (0..n_events).step_by(7) {
        let output = memreel(&["at", &event.to_string(), "--json", file]).output().unwrap();
        let at: Value = serde_json::from_slice(&output.stdout).unwrap();
        let totals = server.get(&format!("totals?moment={}", event + 1)).json();
        for figure in ["event", "allocated_bytes", "active_bytes", "reserved_bytes", "n_blocks"] {
            assert_eq!(totals[figure], at[figure], "{figure} after event {event}");
        }
        let state = server.get(&format!("state?moment={}", event + 1)).json();
        let blocks = |segments: &Value| -> Vec<usize> {
            let segments = segments.as_array().unwrap();
            segments.iter().map(|segment| segment["blocks"].as_array().unwrap().len()).collect()
        };
        assert_eq!(blocks(&state["segments"]), blocks(&at["segments"]), "after event {event}");
    }
}

#[test]
fn a_page_says_why_a_file_cannot_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("empty.pickle"), b"").unwrap();
    fs::write(path("text.pickle"), b"hello, this is a text").unwrap();
    fs::write(path("cut.pickle"), &fs::read(fixture("torch-2.11/snapshots/oom.pickle")).unwrap()[..3000])
        .unwrap();
    fs::copy(fixture("torch-2.11/snapshots/oom.pickle"), path("good.pickle")).unwrap();
    let names = ["empty.pickle", "text.pickle", "cut.pickle", "good.pickle"].map(path);
    let server = serve(&names.each_ref().map(String::as_str));
    server.first_file();
    let files = server.get("files").json()["files"].clone();
    for at in 0..3 {
        assert_eq!(files[at]["state"], "failed", "{}", files[at]);
        let why = files[at]["error"].as_str().unwrap();
        assert!(why.len() > 10, "{why}");
        let refused = server.get(&format!("totals?file={at}&moment=1"));
        assert_eq!((refused.status, refused.json()["error"].as_str()), (404, Some(why)));
    }
    assert_eq!(files[3]["state"], "ready");
    assert_eq!(server.get("totals?file=3&moment=1").status, 200);
    for (query, status) in [
        ("totals?file=9", 404),
        ("totals?file=x", 400),
        ("totals?file=3&device=7", 404),
        ("picture?file=3&axis=sideways", 400),
        ("picture?file=3&level=99999&index=9", 200),
        ("picture?file=3&rows=0&rise=4000000", 200),
        ("block?file=3&life=4000000000", 404),
        ("list?file=3&offset=18446744073709551615", 200),
        ("nothing?file=3", 404),
        ("../Cargo.toml?file=3", 404),
    ] {
        let answer = server.get(query);
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
}

#[test]
fn a_missing_file_and_a_taken_port_are_refused_before_anything_is_served() {
    let output = memreel(&["view", "--no-open", "nothing.pickle"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing.pickle: cannot be read"));
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output =
        memreel(&["view", "--no-open", "--port", &port, "torch-2.11/snapshots/oom.pickle"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains(&format!("port {port} is in use")), "{error}");
}

#[test]
fn a_server_ends_when_it_is_told_and_when_nothing_is_asked() {
    let mut server = serve(&["torch-2.11/snapshots/oom.pickle"]);
    let host = format!("127.0.0.1:{}", server.port);
    let path = format!("{}end", server.path);
    assert_eq!(server.send("POST", "/x/end", &[("Host", &host)]).status, 404);
    assert_eq!(server.send("POST", &path, &[("Host", &host)]).status, 200);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));

    let mut idle = serve(&["--idle", "0.005", "torch-2.11/snapshots/oom.pickle"]);
    assert_eq!(idle.child.wait().unwrap().code(), Some(0));
}

#[test]
fn requests_without_the_token_do_not_keep_a_server() {
    let mut idle = serve(&["--idle", "0.01", "torch-2.11/snapshots/oom.pickle"]);
    let port = idle.port;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = idle.child.try_wait().unwrap() {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it still serves");
        // Refused once the server has ended.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _sent = write!(
                stream,
                "GET /x/files HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            );
            let _read = stream.read_to_end(&mut Vec::new());
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn what_is_no_snapshot_never_replaces_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pickle");
    let bytes = fs::read(fixture("torch-2.11/snapshots/oom.pickle")).unwrap();
    fs::write(&path, &bytes).unwrap();
    let words = |out: &str| {
        let output =
            memreel(&["view", "--html", out]).arg(&path).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for out in [path.to_str().unwrap(), "./a.pickle", "a.pickle"] {
        let (status, error) = words(out);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains("is a snapshot and would be overwritten"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // A name that was forgotten makes an input an output, of any command.
    let other = fixture("torch-2.11/snapshots/oom_fragment.pickle");
    for command in [
        &["report", "-o"][..],
        &["flamegraph", "-o"],
        &["convert", "--to", "csv", "-o"],
        &["timeline", "--svg"],
        &["memory", "--svg"],
        &["ranks", "--html"],
        &["gate", "--max-peak", "1GiB", "--junit"],
        &["view", "--html"],
    ] {
        let output =
            memreel(command).arg("a.pickle").arg(&other).current_dir(folder.path()).output().unwrap();
        assert!(fs::read(&path).unwrap() == bytes, "{command:?}");
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
    }
    assert_eq!(words("b.html").0, Some(0));
    assert!(fs::read_to_string(folder.path().join("b.html")).unwrap().starts_with("<!doctype html>"));
}

#[test]
fn over_ssh_the_line_for_the_other_machine_is_printed() {
    let mut command =
        memreel(&["view", "--print-address", "torch-2.11/snapshots/oom.pickle", "--idle", "0.005"]);
    command.env("SSH_CONNECTION", "10.0.0.1 5555 10.0.0.2 22").env("USER", "ada");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let port = text.split([':', '/']).nth(4).unwrap();
    assert!(text.contains(&format!("ssh -L {port}:127.0.0.1:{port} ada@10.0.0.2")), "{text}");
}

#[test]
fn a_file_is_read_from_standard_input_and_two_pages_ask_at_once() {
    let mut command = memreel(&["view", "--no-open", "--print-address", "-"]);
    command.stdin(fs::File::open(fixture("torch-2.11/snapshots/oom.pickle")).unwrap());
    let server = started(&mut command);
    assert_eq!(server.first_file()["name"], "standard input");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for level in 0..10 {
                    let answer = server.get(&format!("picture?level={level}&index=1&rows=64"));
                    assert_eq!((answer.status, &answer.body[..4]), (200, &b"MRP1"[..]));
                }
            });
        }
    });
}

/// Saves a recording whose scopes have these names.
fn save_with_scopes(path: &Path, names: &[&str]) {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    for name in names {
        let _scope = reel.scope(name);
        drop(reel.alloc(1000).unwrap());
    }
    pickle::save(&reel.snapshot(), path).unwrap();
}

#[test]
fn scopes_become_the_ruler_and_names_stay_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scopes.pickle");
    save_with_scopes(&path, &["warm up", "<script>alert(1)</script>", "step"]);
    let server = serve(&[path.to_str().unwrap()]);
    let device = server.first_file()["devices"][0].clone();
    let names: Vec<&str> =
        device["scopes"].as_array().unwrap().iter().map(|scope| scope["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"warm up") && names.contains(&"step"), "{names:?}");
    let answer = server.get("files");
    assert!(answer.head.contains("application/json"), "a browser runs no JSON: {}", answer.head);
    let rows = server.get("list?sort=from&descending=0").json()["rows"].clone();
    assert_eq!(rows[0]["scope"], "warm up");
}

#[test]
fn a_log_has_no_key_to_the_page() {
    let mut command = memreel(&["view", "--no-open", "torch-2.11/snapshots/oom.pickle"]);
    let mut child = command.env_remove("SSH_CONNECTION").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let path =
        line.strip_prefix("the address is in ").and_then(|rest| rest.split_once(", which only you can read"));
    let path = Path::new(path.unwrap_or_else(|| panic!("{line}")).0);
    let address = std::fs::read_to_string(path).unwrap();
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap()) & 0o777, 0o600);
    let server = Server::of(child, address.trim_end());
    assert!(!line.contains(server.path.trim_matches('/')), "{line}");
    assert_eq!(server.get("files").status, 200);
}

/// Connections that say nothing shut nobody out who has the address.
#[test]
fn silent_connections_give_way() {
    let server = serve(&["torch-2.11/snapshots/oom.pickle"]);
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let silent: Vec<TcpStream> = (0..400).map(|_| connect()).collect();
    assert_eq!(server.get("files").status, 200);
    drop(silent);
}
