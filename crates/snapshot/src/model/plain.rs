//! Serialises ids, words and frames outside a snapshot file: as numbers, names and plain dictionaries.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::stack_table::{Frame, FrameIndex, StackIndex};
use crate::words::{Action, BlockState, DeviceId, PoolId, PoolKind, StreamId};

macro_rules! serialize_as {
    ($form:expr; $word:ty) => {
        impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ($form)(*self).serialize(serializer)
            }
        }
    };
}

serialize_as!(|id: DeviceId| id.0; DeviceId);
serialize_as!(|id: StreamId| id.0; StreamId);
serialize_as!(|pool: PoolId| [pool.graph, pool.user]; PoolId);
serialize_as!(StackIndex::index; StackIndex);
serialize_as!(FrameIndex::index; FrameIndex);
serialize_as!(Action::name; Action);
serialize_as!(BlockState::name; BlockState);
serialize_as!(PoolKind::name; PoolKind);

impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frame = serializer.serialize_struct("Frame", 3)?;
        frame.serialize_field("name", &*self.name)?;
        frame.serialize_field("filename", &*self.filename)?;
        frame.serialize_field("line", &self.line)?;
        frame.end()
    }
}
