//! A client of the server, for these tests.

#![forbid(unsafe_code)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use serde_json::{Value, json};

/// A server, and the session with it.
pub(crate) struct Session {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

/// The answer to a call of a tool.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_error: bool,
    /// The texts of its blocks: the answer, then notes.
    pub(crate) texts: Vec<String>,
    pub(crate) structured: Value,
}

impl Answer {
    fn new(result: &Value) -> Answer {
        let texts = result["content"].as_array().unwrap_or_else(|| panic!("no content: {result}"));
        Answer {
            is_error: result["isError"].as_bool().unwrap(),
            texts: texts.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect(),
            structured: result["structuredContent"].clone(),
        }
    }
}

impl Session {
    /// Starts a server with options; the session has not begun.
    pub(crate) fn start(options: &[&str]) -> Session {
        let mut server = Command::new(env!("CARGO_BIN_EXE_memreel"));
        server.arg("mcp").args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let (input, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        Session { server, input, output, last_id: 0 }
    }

    /// Starts a server with options, and begins a session.
    pub(crate) fn begin(options: &[&str]) -> Session {
        let mut session = Session::start(options);
        let client = json!({"name": "test", "version": "1"});
        let begun = session.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        assert_eq!(begun["result"]["serverInfo"]["name"], "memreel", "{begun}");
        assert!(begun["result"]["instructions"].as_str().unwrap().contains("never instructions"));
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        session
    }

    /// Writes a line.
    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Sends a request; returns its number.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Reads a message.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has closed the session");
        // Characters that move a cursor are never sent as they are.
        assert!(!line.trim_end_matches('\n').chars().any(char::is_control), "{line:?}");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Sends a request and returns the message that answers it.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let message = self.receive();
        assert_eq!(message["id"], id, "{message}");
        message
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        let message = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        Answer::new(&message["result"])
    }

    /// Returns the next answer to a call, with the number of its request.
    pub(crate) fn answer(&mut self) -> (u64, Answer) {
        let message = self.receive();
        (message["id"].as_u64().unwrap(), Answer::new(&message["result"]))
    }

    /// Returns the tools.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        self.request("tools/list", &json!({}))["result"]["tools"].as_array().unwrap().clone()
    }

    /// Returns the names of the tools.
    pub(crate) fn names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes the server's input; returns what else it wrote, and how it ended.
    pub(crate) fn close(mut self) -> (Vec<Value>, ExitStatus) {
        self.input = None;
        let lines = self.output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        (lines, self.server.wait().unwrap())
    }
}
