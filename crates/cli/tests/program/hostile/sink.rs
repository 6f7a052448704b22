//! Writes one value as a pickle or as JSON, piece by piece, without holding it.

#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    io::{self, Write},
};

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Pickle,
    Json,
}

/// A container that is being written.
struct Open {
    kind: Kind,
    n_items: usize,
    /// Whether a key was written whose value comes next.
    has_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Tuple,
    Dict,
}

/// The items of a container that CPython's pickler writes at once.
const BATCH: usize = 1000;

/// A file that is being written.
pub(super) struct Sink<'w> {
    form: Form,
    out: &'w mut dyn Write,
    n_bytes: usize,
    open: Vec<Open>,
    /// Numbers of the texts and containers in the memo.
    memo: HashMap<String, u32>,
}

impl<'w> Sink<'w> {
    pub(super) fn new(form: Form, out: &'w mut dyn Write) -> Sink<'w> {
        let mut sink = Sink { form, out, n_bytes: 0, open: Vec::new(), memo: HashMap::new() };
        if form == Form::Pickle {
            sink.raw(b"\x80\x04");
        }
        sink
    }

    /// Whether a value that is used often is in the file once.
    pub(super) fn shares(&self) -> bool {
        self.form == Form::Pickle
    }

    /// Ends the file and returns its length in bytes.
    pub(super) fn finish(mut self) -> usize {
        if self.form == Form::Pickle {
            self.raw(b".");
        }
        self.n_bytes
    }

    /// Writes opcodes of a pickle, or text of JSON, as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len();
        self.out.write_all(bytes).unwrap();
    }

    /// Writes the same opcodes again and again.
    pub(super) fn raw_times(&mut self, bytes: &[u8], n: usize) {
        (0..n).for_each(|_| self.raw(bytes));
    }

    pub(super) fn list(&mut self) {
        self.begin(Kind::List);
    }

    pub(super) fn tuple(&mut self) {
        self.begin(Kind::Tuple);
    }

    pub(super) fn dict(&mut self) {
        self.begin(Kind::Dict);
    }

    fn begin(&mut self, kind: Kind) {
        self.before_item();
        let opcodes: &[u8] = match (self.form, kind) {
            (Form::Pickle, Kind::List) => b"](",
            (Form::Pickle, Kind::Tuple) => b"(",
            (Form::Pickle, Kind::Dict) => b"}(",
            (Form::Json, Kind::Dict) => b"{",
            (Form::Json, _) => b"[",
        };
        self.raw(opcodes);
        self.open.push(Open { kind, n_items: 0, has_key: false });
    }

    /// Ends the container that was begun last.
    pub(super) fn end(&mut self) {
        let closed = self.open.pop().unwrap();
        let opcodes: &[u8] = match (self.form, closed.kind) {
            (Form::Pickle, Kind::List) => b"e",
            (Form::Pickle, Kind::Tuple) => b"t",
            (Form::Pickle, Kind::Dict) => b"u",
            (Form::Json, Kind::Dict) => b"}",
            (Form::Json, _) => b"]",
        };
        self.raw(opcodes);
    }

    /// Ends batches of a pickle, and separates items of JSON.
    fn before_item(&mut self) {
        let Some(open) = self.open.last_mut() else { return };
        if std::mem::take(&mut open.has_key) {
            return;
        }
        open.n_items += 1;
        let (is_first, is_batch) = (open.n_items == 1, open.n_items % BATCH == 0);
        match (self.form, open.kind) {
            (Form::Json, _) if !is_first => self.raw(b","),
            (Form::Pickle, Kind::List) if is_batch => self.raw(b"e("),
            (Form::Pickle, Kind::Dict) if is_batch => self.raw(b"u("),
            _ => {}
        }
    }

    /// Writes a key of the dictionary that was begun last, once and then from the memo.
    pub(super) fn key(&mut self, key: &str) {
        self.shared_text(key);
        self.after_key();
    }

    /// Writes a key that no other dictionary has.
    pub(super) fn rare_key(&mut self, key: &str) {
        self.text(key);
        self.after_key();
    }

    fn after_key(&mut self) {
        self.open.last_mut().unwrap().has_key = true;
        if self.form == Form::Json {
            self.raw(b":");
        }
    }

    pub(super) fn none(&mut self) {
        self.before_item();
        self.raw(if self.form == Form::Json { b"null" } else { b"N" });
    }

    pub(super) fn int(&mut self, int: i128) {
        self.before_item();
        if self.form == Form::Json {
            return self.raw(int.to_string().as_bytes());
        }
        if let Ok(byte) = u8::try_from(int) {
            self.raw(&[b'K', byte]);
        } else if let Ok(int) = i32::try_from(int) {
            self.raw(b"J");
            self.raw(&int.to_le_bytes());
        } else {
            self.raw(&[0x8a, 9]);
            self.raw(&int.to_le_bytes()[..9]);
        }
    }

    /// Writes a text in full.
    pub(super) fn text(&mut self, text: &str) {
        self.before_item();
        if self.form == Form::Json {
            self.raw(b"\"");
            self.raw(text.as_bytes());
            return self.raw(b"\"");
        }
        match u8::try_from(text.len()) {
            Ok(n_bytes) => self.raw(&[0x8c, n_bytes]),
            Err(_) => {
                self.raw(b"X");
                self.raw(&u32::try_from(text.len()).unwrap().to_le_bytes());
            }
        }
        self.raw(text.as_bytes());
    }

    /// Writes a text once and then, in a pickle, from the memo.
    pub(super) fn shared_text(&mut self, text: &str) {
        self.shared(text, |sink| sink.text(text));
    }

    /// Writes a value once and then, in a pickle, from the memo; in JSON always in full.
    pub(super) fn shared(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        if self.form == Form::Json {
            return write(self);
        }
        if let Some(number) = self.memo.get(name).copied() {
            self.before_item();
            return self.numbered(*b"hj", number);
        }
        write(self);
        let number = u32::try_from(self.memo.len()).unwrap();
        self.memo.insert(name.to_owned(), number);
        self.numbered(*b"qr", number);
    }

    fn numbered(&mut self, [short, long]: [u8; 2], number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.raw(&[short, number]),
            Err(_) => {
                self.raw(&[long]);
                self.raw(&number.to_le_bytes());
            }
        }
    }

    pub(super) fn int_field(&mut self, key: &str, int: i128) {
        self.key(key);
        self.int(int);
    }

    pub(super) fn text_field(&mut self, key: &str, text: &str) {
        self.key(key);
        self.shared_text(text);
    }
}

/// Returns the length of what is written.
pub(super) fn length(form: Form, write: impl FnOnce(&mut Sink<'_>)) -> usize {
    let mut nowhere = io::sink();
    let mut sink = Sink::new(form, &mut nowhere);
    write(&mut sink);
    sink.finish()
}
