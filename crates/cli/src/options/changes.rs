//! The options that change a recorded program: what it would need without some requests, or with others.

#![forbid(unsafe_code)]

use clap::ArgAction;
use memreel::whatif::Change;

use crate::{failure::Failure, text::clean};

#[derive(Debug, clap::Args)]
pub(crate) struct Changes {
    /// Leave out the requests made inside this call. Name it as memreel does, for example `layer
    /// (model.py:70)`, or give part of the name; may be repeated
    #[arg(long, value_name = "CALL", action = ArgAction::Append)]
    without: Vec<String>,

    /// Multiply the sizes of the requests made inside a call; for example, `logits (loss.py:12)=0.5`
    /// simulates half precision; may be repeated
    #[arg(long, value_name = "CALL=FACTOR", action = ArgAction::Append)]
    scale: Vec<String>,

    /// When this call returns, free the blocks that it left allocated, and request them again in the
    /// backward pass, as a checkpoint around the call would; may be repeated
    #[arg(long, value_name = "CALL", action = ArgAction::Append)]
    free_after_use: Vec<String>,
}

impl Changes {
    /// Returns the changes, in the order in which they are made.
    pub(crate) fn read(&self) -> Result<Vec<Change>, Failure> {
        let without = self.without.iter().map(|call| Ok(Change::without(call)));
        let freed = self.free_after_use.iter().map(|call| Ok(Change::freed_after_use(call)));
        without.chain(freed).chain(self.scale.iter().map(|text| scaled(text))).collect()
    }

    /// Returns the changes in words.
    pub(crate) fn words(&self) -> Vec<String> {
        let without = self.without.iter().map(|call| format!("without {}", clean(call)));
        let freed = self.free_after_use.iter().map(|call| format!("with {} freed after use", clean(call)));
        let scaled = self.scale.iter().map(|text| format!("with {}", clean(text)));
        without.chain(freed).chain(scaled).collect()
    }
}

fn scaled(text: &str) -> Result<Change, Failure> {
    let refuse = || {
        Failure::usage(format!(
            "{:?} is not a call and a factor, such as \"layer (m.py:70)=0.5\"",
            clean(text)
        ))
    };
    let (call, factor) = text.rsplit_once('=').ok_or_else(refuse)?;
    Ok(Change::scaled(call, factor.parse().map_err(|_| refuse())?)?)
}
