//! A scheduler and executors in processes of their own, on ports of this machine; they end with the test.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a scheduler waits for a silent executor.
const EXECUTOR_TIMEOUT_S: &str = "3";

/// A process, and what it has printed to standard error.
struct Machine {
    child: Child,
    printed: Arc<Mutex<String>>,
}

impl Machine {
    fn start(words: &[&str]) -> Machine {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memreel-fleet"))
            .args(words)
            .env("RUST_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (errors, kept) = (child.stderr.take().unwrap(), printed.clone());
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                *kept.lock().unwrap() += &(line + "\n");
            }
        });
        Machine { child, printed }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

/// A cluster on this machine.
pub(crate) struct Machines {
    pub(crate) address: String,
    scheduler: Machine,
    executors: Vec<Machine>,
}

impl Machines {
    pub(crate) fn start(n_executors: usize) -> Machines {
        let port = two_free_ports();
        let words = ["scheduler", "--port", &port.to_string(), "--executor-timeout", EXECUTOR_TIMEOUT_S];
        let scheduler = Machine::start(&words);
        wait("the scheduler listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let address = format!("df://127.0.0.1:{port}");
        let mut machines = Machines { address, scheduler, executors: Vec::new() };
        for n in 1..=n_executors {
            let port = two_free_ports().to_string();
            let words = ["executor", &machines.address, "--port", &port, "--cores", "1", "--heartbeat", "1"];
            machines.executors.push(Machine::start(&words));
            wait("the executor is known", || {
                machines.report().matches("Received register executor").count() >= n
            });
        }
        machines
    }

    /// Kills an executor.
    pub(crate) fn kill(&mut self, executor: usize) {
        self.executors[executor].end();
    }

    /// Returns what the scheduler has printed.
    pub(crate) fn report(&self) -> String {
        self.scheduler.printed.lock().unwrap().clone()
    }
}

/// Waits until something holds.
pub(crate) fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a port that is free with the next one, below those that the system gives to clients, and never twice.
fn two_free_ports() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let pair = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (pair % 11_000) as u16 * 2;
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
}
