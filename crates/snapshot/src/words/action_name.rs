//! Converts between actions and their names.

use std::str::FromStr;

use super::{Action, Error, Result};

impl FromStr for Action {
    type Err = Error;

    fn from_str(text: &str) -> Result<Action> {
        Action::from_name(text).ok_or_else(|| {
            let names: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
            Error::invalid_option("skip_actions", text, format!("one of {}", names.join(", ")))
        })
    }
}
