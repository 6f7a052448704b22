//! `--metrics`: what a program that counts its own memory has, and what is refused.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use memreel_snapshot::profile;

use super::{Start, program, record};

/// Waits for what must come.
pub(super) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(found) = found() {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{what} did not come");
}

/// A recorded program of stages, with its metrics.
struct Staged {
    start: Start,
    child: Child,
    address: String,
}

impl Staged {
    fn start(options: &[&str]) -> Staged {
        let options = [&["--heap", "--metrics", "127.0.0.1:0"][..], options].concat();
        let mut start = record(&options, &[&program("staged")]);
        let mut child = start.spawn();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // Lines of the end have a reader, so that they do not fail.
        thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        let address = line.trim_end().strip_prefix("memreel: metrics are at http://");
        let address =
            address.and_then(|rest| rest.strip_suffix("/metrics")).unwrap_or_else(|| panic!("{line}"));
        Staged { child, address: address.to_owned(), start }
    }

    fn reaches(&self, stage: u32) {
        wait_for("a stage", || self.start.path(&format!("at-{stage}")).exists().then_some(()));
    }

    fn go_on(&self, stage: u32) {
        fs::write(self.start.path(&format!("go-{stage}")), "").unwrap();
    }

    /// Returns the head and the body of an answer.
    fn get_bytes(&self, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    }

    /// Returns the head and the text of an answer.
    fn get(&self, request: &str) -> (String, String) {
        let (head, body) = self.get_bytes(request);
        (head, String::from_utf8(body).unwrap())
    }

    /// Returns the numbers of a look that began now or later.
    fn numbers(&self) -> Numbers {
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        wait_for("a look", || {
            let (head, body) = self.get("GET /metrics");
            let numbers = head.starts_with("HTTP/1.1 200").then(|| Numbers::of(&body))?;
            (numbers.0["memreel_look_timestamp_seconds"] >= now).then_some(numbers)
        })
    }
}

/// Each series with its number.
struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    fn of(text: &str) -> Numbers {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, number) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), number.parse().unwrap())
        });
        Numbers(series.collect())
    }

    /// Returns the sum of a metric's series that have a text.
    #[allow(clippy::cast_possible_truncation)]
    fn sum(&self, metric: &str, text: &str) -> i64 {
        let is_of = |series: &str| {
            series.strip_prefix(metric).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
        };
        let found = self.0.iter().filter(|(series, _)| is_of(series) && series.contains(text));
        let numbers: Vec<f64> = found.map(|(_, number)| *number).collect();
        assert!(!numbers.is_empty(), "{metric} {text}: {:#?}", self.0.keys());
        numbers.iter().sum::<f64>() as i64
    }
}

/// What Go's tools ask any service for. The reader of profiles shares no code with their writer.
#[test]
fn what_is_held_is_served_as_a_profile() {
    let mut staged = Staged::start(&[]);
    for stage in [1, 2] {
        staged.reaches(stage);
        let held = staged.numbers().sum("memreel_allocated_bytes", "");
        let (head, bytes) = staged.get_bytes("GET /debug/pprof/heap");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let snapshot = profile::from_slice(&bytes).unwrap();
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let bytes: u64 = blocks.map(|block| block.size).sum();
        assert_eq!(i64::try_from(bytes).unwrap(), held, "stage {stage}");
        let names: Vec<&str> = snapshot.stacks.all_frames().map(|frame| &*frame.name).collect();
        assert!(names.contains(&"kept_for_ever"), "{names:?}");
        staged.go_on(stage);
    }
    assert!(staged.child.wait().unwrap().success());
}

#[test]
fn a_profile_of_some_seconds_is_refused() {
    let mut staged = Staged::start(&[]);
    staged.reaches(1);
    for request in ["GET /debug/pprof/heap?seconds=5", "GET /debug/pprof/heap?debug=1"] {
        let (head, _) = staged.get(request);
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    }
    (1..3).for_each(|stage| staged.go_on(stage));
    assert!(staged.child.wait().unwrap().success());
}

#[test]
fn numbers_are_those_of_the_program() {
    let mut staged = Staged::start(&["--metrics-sites", "3"]);
    staged.reaches(1);
    let first = staged.numbers();
    staged.go_on(1);
    staged.reaches(2);
    let second = staged.numbers();
    let rise = |metric: &str, text: &str| second.sum(metric, text) - first.sum(metric, text);
    assert_eq!(rise("memreel_allocated_bytes", "heap of the process"), 600 * 5000);
    assert_eq!(rise("memreel_blocks", ""), 600);
    assert_eq!(rise("memreel_requests_total", ""), 1000);
    assert_eq!(rise("memreel_requested_bytes_total", ""), 999 * 5000 + (40 << 20));
    assert_eq!(rise("memreel_frees_total", ""), 400);
    let peak = first.sum("memreel_allocated_bytes", "") + 600 * 5000 + (40 << 20);
    assert_eq!(second.sum("memreel_allocated_peak_bytes", ""), peak);
    assert_eq!(rise("memreel_owner_bytes", "owner=\"program\""), 600 * 5000);
    assert!(second.sum("memreel_owner_at_peak_bytes", "owner=\"program\"") >= 64 << 20);
    // The first look may have been before the first block.
    let grown = rise("memreel_allocated_bytes", "")..=second.sum("memreel_allocated_bytes", "");
    assert!(grown.contains(&second.sum("memreel_growth_bytes", "")), "{grown:?} {:#?}", second.0);
    // What came before the first look counts too.
    assert_eq!(first.sum("memreel_site_bytes", "kept_for_ever"), 64 << 20);
    assert!(first.sum("memreel_requested_bytes_total", "") >= 64 << 20);
    for zero in ["memreel_failed_requests_total", "memreel_catch_ups_total"] {
        assert_eq!(second.sum(zero, ""), 0, "{zero}");
    }
    assert_eq!(second.sum("memreel_processes", ""), 1);
    // A heap has no limit and no segments.
    for absent in ["memreel_limit", "memreel_reserved", "memreel_unused"] {
        assert!(!second.0.keys().any(|series| series.starts_with(absent)), "{absent}");
    }
    staged.go_on(2);
    assert!(staged.child.wait().unwrap().success());
}

#[test]
fn only_metrics_are_answered_and_often_asked_is_not_often_looked() {
    let mut staged = Staged::start(&[]);
    staged.reaches(1);
    let _first = staged.numbers();
    for (request, status) in
        [("GET /", 404), ("POST /metrics", 405), ("GET /metrics?x=1", 200), ("HEAD /metrics", 200)]
    {
        let (head, body) = staged.get(request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
        assert_eq!(body.is_empty(), request.starts_with("HEAD"), "{request}: {body}");
    }
    let (head, body) = staged.get("GET /metrics");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(!body.contains("memreel_site_bytes"), "sites come only with --metrics-sites");
    let (begun, mut looks) = (Instant::now(), Vec::new());
    for _ in 0..1000 {
        looks.push(Numbers::of(&staged.get("GET /metrics").1).0["memreel_look_timestamp_seconds"]);
    }
    looks.dedup();
    let n_due = begun.elapsed().as_millis() / 500 + 2;
    assert!((looks.len() as u128) <= n_due, "{} looks, {n_due} were due", looks.len());
    staged.go_on(1);
    staged.go_on(2);
    assert!(staged.child.wait().unwrap().success());
}

#[test]
fn processes_that_ended_have_no_series() {
    let script = "(exec $0 & wait); touch ended; while [ ! -e over ]; do sleep 0.02; done";
    let mut start =
        record(&["--heap", "--metrics", "127.0.0.1:0"], &["sh", "-c", script, &program("staged")]);
    start.command.stdout(Stdio::null());
    let mut child = start.spawn();
    let mut line = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    lines.read_line(&mut line).unwrap();
    thread::spawn(move || lines.read_to_end(&mut Vec::new()));
    let address =
        line.trim_end().split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let mut staged = Staged { start, child, address };
    staged.reaches(1);
    let has_large = |numbers: &Numbers| {
        let is_large =
            |series: &str, bytes: f64| series.starts_with("memreel_allocated_bytes") && bytes >= 64e6;
        numbers.0.iter().any(|(series, bytes)| is_large(series, *bytes))
    };
    let both = staged.numbers();
    assert!(has_large(&both) && both.sum("memreel_processes", "") >= 2, "{:#?}", both.0);
    staged.go_on(1);
    staged.go_on(2);
    wait_for("the end", || staged.start.path("ended").exists().then_some(()));
    let left = staged.numbers();
    assert!(!has_large(&left) && left.sum("memreel_processes", "") >= 1, "{:#?}", left.0);
    fs::write(staged.start.path("over"), "").unwrap();
    assert!(staged.child.wait().unwrap().success());
}

#[test]
fn an_address_that_cannot_be_had_is_said_before_the_program_starts() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    for (address, status, message) in [
        (&*taken, 3, "is in use; choose another port"),
        ("127.0.0.1", 2, "is not an address and a port; use for example 127.0.0.1:9464"),
        ("192.0.2.1:9464", 3, "metrics cannot be served at 192.0.2.1:9464"),
    ] {
        let run = record(&["--metrics", address], &["touch", "started"]).run();
        assert_eq!(run.status, Some(status), "{address}: {}", run.err);
        assert!(run.err.contains(message), "{address}: {}", run.err);
        assert!(!run.folder.path().join("started").exists(), "{address}");
    }
}

/// A page of the web can have its own name lead to this machine; and who has no token reads nothing.
#[test]
fn metrics_are_for_those_who_name_the_host_and_have_the_token() {
    let secrets = tempfile::tempdir().unwrap();
    let token = secrets.path().join("token");
    fs::write(&token, "a-long-secret\n").unwrap();
    let staged = Staged::start(&["--metrics-token", token.to_str().unwrap()]);
    let (local, right) = (staged.address.clone(), "Authorization: Bearer a-long-secret\r\n");
    let status = |host: &str, authorization: &str| {
        let mut stream = TcpStream::connect(&staged.address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n{authorization}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].to_owned()
    };
    // What is asked for is not there: the answer to those who may ask.
    assert_eq!(status(&local, right), "404");
    assert_eq!(status("localhost", right), "404");
    assert_eq!(status("evil.com", right), "403");
    assert_eq!(status(&local, ""), "401");
    assert_eq!(status(&local, "Authorization: Bearer another\r\n"), "401");
    let Staged { mut child, .. } = staged;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_port_that_others_reach_is_said() {
    let run = record(&["--metrics", "0.0.0.0:0"], &["true"]).run();
    assert!(
        run.err.contains("memreel: every machine that reaches this address can read the metrics"),
        "{}",
        run.err
    );
    let run = record(&["--metrics", "127.0.0.1:0"], &["true"]).run();
    assert!(!run.err.contains("every machine"), "{}", run.err);
    let run =
        record(&["--metrics", "127.0.0.1:0", "--metrics-token", "not-there"], &["touch", "started"]).run();
    assert_eq!(run.status, Some(2), "{}", run.err);
    assert!(!run.folder.path().join("started").exists());
}
