//! Decides who gets metrics: clients that use the host's own name, so that no web page reads them under another name,
//! and that have the token if there is one.

#![forbid(unsafe_code)]

use std::{fs, net::SocketAddr, path::Path};

use hyper::{HeaderMap, StatusCode, header::AUTHORIZATION};

use crate::{
    failure::Failure,
    serve::{connections::is_local, token::is_same},
    text::ShownPath,
};

/// The conditions of an answer.
#[derive(Debug)]
pub(super) struct Access {
    /// Whether only this machine reaches the port.
    is_loopback: bool,
    token: Option<String>,
}

impl Access {
    /// Reads the token from a file, if there is one.
    pub(super) fn of(address: SocketAddr, token_file: Option<&Path>) -> Result<Access, Failure> {
        let read = |path: &Path| {
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("cannot read the metrics token from {}: {error}", ShownPath(path)))
            })?;
            match text.trim() {
                "" => Err(Failure::usage(format!("{} is empty; write a token to it", ShownPath(path)))),
                token => Ok(token.to_owned()),
            }
        };
        let token = token_file.map(read).transpose()?;
        Ok(Access { is_loopback: address.ip().is_loopback(), token })
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns a line for a port that others reach.
    pub(super) fn warning(&self) -> Option<&'static str> {
        match (self.is_loopback, &self.token) {
            (true, _) => None,
            (false, None) => Some(
                "every machine that reaches this address can read the metrics; use 127.0.0.1 for this \
                 machine only, or --metrics-token FILE to require a token",
            ),
            (false, Some(_)) => Some(
                "other machines can reach this address, and the token is sent \
                 unencrypted",
            ),
        }
    }

    /// Returns why a request gets no metrics.
    pub(super) fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        if self.is_loopback && !is_local(headers) {
            return Some((
                StatusCode::FORBIDDEN,
                "the host is neither an address of this machine nor localhost\n",
            ));
        }
        let expected = self.token.as_deref()?;
        let given = headers.get(AUTHORIZATION).and_then(|given| given.to_str().ok()?.strip_prefix("Bearer "));
        match given {
            Some(given) if is_same(given.trim(), expected) => None,
            _ => Some((
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; send `Authorization: Bearer TOKEN`\n",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HOST, HeaderValue};

    #[test]
    fn names_of_others_and_wrong_tokens_get_nothing() {
        let status = |access: &Access, host: &'static str, token: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            headers.extend(token.map(|token| (AUTHORIZATION, HeaderValue::from_static(token))));
            access.refusal(&headers).map_or(200, |(status, _)| status.as_u16())
        };
        let open = Access { is_loopback: true, token: None };
        assert_eq!(status(&open, "127.0.0.1:9464", None), 200);
        assert_eq!(status(&open, "evil.com", None), 403);
        assert_eq!(status(&Access { is_loopback: false, token: None }, "gpu7.cluster:9464", None), 200);
        let closed = Access { is_loopback: true, token: Some("secret".to_owned()) };
        assert_eq!(status(&closed, "localhost:1", Some("Bearer secret")), 200);
        for wrong in [None, Some("Bearer secreT"), Some("secret"), Some("Basic secret")] {
            assert_eq!(status(&closed, "localhost:1", wrong), 401, "{wrong:?}");
        }
        assert_eq!(status(&closed, "evil.com", Some("Bearer secret")), 403);
    }
}
