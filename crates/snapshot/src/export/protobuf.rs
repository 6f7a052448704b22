//! Writes the parts of the protobuf wire format that a profile needs: varints and fields with a length.

use std::io;

/// A message that is being built.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Adds an integer field; 0 is left out, because readers assume it for a missing field.
    pub(super) fn int(&mut self, field: u64, value: u64) {
        if value != 0 {
            varint(&mut self.0, field << 3);
            varint(&mut self.0, value);
        }
    }

    /// Adds a field of bytes: a text or another message.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a field that is another message.
    pub(super) fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// Adds a packed repeated field of integers.
    pub(super) fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Vec::new();
        values.into_iter().for_each(|value| varint(&mut packed, value));
        self.bytes(field, &packed);
    }

    /// Adds bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes the message as a field of another.
    pub(super) fn write(&self, field: u64, sink: &mut impl io::Write) -> io::Result<()> {
        let mut head = Vec::with_capacity(20);
        varint(&mut head, field << 3 | 2);
        varint(&mut head, self.0.len() as u64);
        sink.write_all(&head)?;
        sink.write_all(&self.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Empties the message for reuse.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Adds an integer: seven bits a byte, the lowest first; the eighth bit is set if more bytes follow.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
