//! Tests of the rules of the format: each rule broken once, and PyTorch's own dumps (`rules`); random histories,
//! true and with one wrong figure (`histories`).
#![forbid(unsafe_code)]

mod histories;
mod rules;
