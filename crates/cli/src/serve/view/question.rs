//! A request that a thread answers.

#![forbid(unsafe_code)]

use std::sync::mpsc::Sender;

use tokio::sync::oneshot;

use super::{
    request::Request,
    route::{Answer, is_slow},
};

/// A request, and where its answer goes.
pub(super) struct Question {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// Where questions about some files go. The threads that answer end when this is dropped.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) ask: Sender<Question>,
    /// For questions that may take seconds.
    pub(super) ask_long: Sender<Question>,
}

impl Desk {
    /// Sends a request; the answer is sent to the receiver. Returns `None` if nothing answers any longer.
    pub(super) fn ask(&self, request: Request) -> Option<oneshot::Receiver<Answer>> {
        let (reply, answer) = oneshot::channel();
        let ask = if is_slow(&request) { &self.ask_long } else { &self.ask };
        ask.send(Question { request, reply }).ok()?;
        Some(answer)
    }
}
