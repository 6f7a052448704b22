//! A value as a pickle, in which equal texts and frames are there once, or as JSON.

use std::collections::HashMap;

use serde_json::{Number, Value, json};

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A pickle, as PyTorch writes it.
    Pickle,
    /// The same as JSON.
    Json,
}

/// The items of a container that CPython's pickler writes at once.
const BATCH: usize = 1000;

/// Stands for a long text, of which a value that has it often holds the parts alone.
pub(super) fn repeated(part: &str, n: u64) -> Value {
    json!({ "": [part, n] })
}

/// Returns the text that a value stands for.
fn text_of(value: &Value) -> Option<String> {
    let part = value.get("")?;
    Some(part[0].as_str()?.repeat(part[1].as_u64()? as usize))
}

/// Returns a file with a value.
#[must_use]
pub fn written(form: Form, value: &Value) -> Vec<u8> {
    if form == Form::Json {
        return serde_json::to_vec(&in_full(value)).unwrap();
    }
    let mut pickler = Pickler::default();
    pickler.value(value);
    of_opcodes(&pickler.out)
}

/// Returns a pickle of these opcodes.
pub(super) fn of_opcodes(opcodes: &[u8]) -> Vec<u8> {
    [b"\x80\x04", opcodes, b"."].concat()
}

fn in_full(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(in_full).collect(),
        Value::Object(fields) => match text_of(value) {
            Some(text) => text.into(),
            None => fields.iter().map(|(key, value)| (key.clone(), in_full(value))).collect(),
        },
        other => other.clone(),
    }
}

/// What is in a pickle once.
#[derive(PartialEq, Eq, Hash)]
enum Shared<'v> {
    Text(&'v str),
    Value(&'v Value),
}

/// Writes a pickle.
#[derive(Default)]
struct Pickler<'v> {
    out: Vec<u8>,
    memo: HashMap<Shared<'v>, u32>,
}

impl<'v> Pickler<'v> {
    fn value(&mut self, value: &'v Value) {
        match value {
            Value::Number(int) => self.int(int),
            Value::String(text) => self.shared(Shared::Text(text), |pickler| pickler.text(text)),
            Value::Array(items) => match items.as_slice() {
                // A pool, or another pair.
                [one, other] if one.is_number() && other.is_number() => {
                    [one, other].into_iter().for_each(|item| self.value(item));
                    self.out.push(0x86);
                }
                items => self.batches(*b"]e", &items.iter().collect::<Vec<_>>(), Pickler::value),
            },
            Value::Object(fields) => {
                let write = |pickler: &mut Pickler<'v>| {
                    let fields: Vec<_> = fields.iter().collect();
                    pickler.batches(*b"}u", &fields, |pickler, (key, value)| {
                        pickler.shared(Shared::Text(key), |pickler| pickler.text(key));
                        pickler.value(value);
                    });
                };
                match text_of(value) {
                    Some(text) => self.shared(Shared::Value(value), |pickler| pickler.text(&text)),
                    None if fields.contains_key("filename") => self.shared(Shared::Value(value), write),
                    None => write(self),
                }
            }
            _ => self.out.push(b'N'),
        }
    }

    /// Writes a container, whose opcodes are given, in batches of its items.
    fn batches<T: Copy>(&mut self, [empty, end]: [u8; 2], items: &[T], write: impl Fn(&mut Pickler<'v>, T)) {
        self.out.push(empty);
        for batch in items.chunks(BATCH) {
            self.out.push(b'(');
            batch.iter().for_each(|item| write(self, *item));
            self.out.push(end);
        }
    }

    fn int(&mut self, int: &Number) {
        let int = int.as_i128().unwrap();
        if let Ok(byte) = u8::try_from(int) {
            self.out.extend([b'K', byte]);
        } else if let Ok(int) = i32::try_from(int) {
            self.out.push(b'J');
            self.out.extend(int.to_le_bytes());
        } else {
            self.out.extend([0x8a, 9]);
            self.out.extend(&int.to_le_bytes()[..9]);
        }
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(n_bytes) => self.out.extend([0x8c, n_bytes]),
            Err(_) => {
                self.out.push(b'X');
                self.out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
    }

    /// Writes a value once and then from the memo.
    fn shared(&mut self, what: Shared<'v>, write: impl FnOnce(&mut Pickler<'v>)) {
        if let Some(number) = self.memo.get(&what).copied() {
            return self.numbered(*b"hj", number);
        }
        write(self);
        let number = u32::try_from(self.memo.len()).unwrap();
        self.memo.insert(what, number);
        self.numbered(*b"qr", number);
    }

    fn numbered(&mut self, [short, long]: [u8; 2], number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.out.extend([short, number]),
            Err(_) => {
                self.out.push(long);
                self.out.extend(number.to_le_bytes());
            }
        }
    }
}
