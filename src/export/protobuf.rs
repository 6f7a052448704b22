//! The little of the protobuf wire format that a profile needs: varints, and what has a length.

/// A message as it grows.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A field of an integer; 0 is what readers assume of a missing one.
    pub(super) fn int(&mut self, field: u64, value: u64) {
        if value != 0 {
            varint(&mut self.0, field << 3);
            varint(&mut self.0, value);
        }
    }

    /// A field of bytes: a text, or another message.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A field of another message.
    pub(super) fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// A repeated field of integers, one behind the other.
    pub(super) fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Vec::new();
        values.into_iter().for_each(|value| varint(&mut packed, value));
        self.bytes(field, &packed);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Empty again, for the next one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Seven bits a byte, the lowest first; the eighth is set if more follow.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
