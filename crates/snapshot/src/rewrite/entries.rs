//! Repairs single entries that a reader cannot print.

use super::change::Changes;
use crate::{
    model::{Field, Shape, ShapeId, Shapes, Slot, TraceEntry},
    words::Action,
};

/// Drops entries without the numbers they need, and repairs `frames` that is not a list.
pub(super) fn fix(trace: &mut Vec<TraceEntry>, shapes: &mut Shapes, place: &str, changes: &mut Changes) {
    let n_before = trace.len();
    let verdicts: Vec<[bool; 2]> =
        shapes.iter().map(|(_, shape)| [is_whole(shape, false), is_whole(shape, true)]).collect();
    trace.retain(|entry| verdicts[entry.shape.index()][usize::from(entry.action == Some(Action::Oom))]);
    changes.add(place, "dropped entries without an address or a size", n_before - trace.len());
    let clean: Vec<Option<ShapeId>> = (0..shapes.len()).map(|at| without_odd_frames(shapes, at)).collect();
    let mut n = 0;
    for entry in trace {
        if let Some(shape) = clean[entry.shape.index()] {
            entry.shape = shape;
            n += 1;
        }
    }
    changes.add(place, "removed `frames` that are not a list of frames", n);
}

fn is_whole(shape: &Shape, is_oom: bool) -> bool {
    let place = if is_oom { Field::DeviceFree } else { Field::Addr };
    shape.has(Field::Size) && shape.has(place)
}

fn without_odd_frames(shapes: &mut Shapes, at: usize) -> Option<ShapeId> {
    let shape = shapes.get(ShapeId(u32::try_from(at).ok()?));
    let is_odd = matches!(shape.slot("frames"), Some(Slot::Value(_)));
    let mut clean = Shape::default();
    if is_odd {
        for (key, slot) in shape.slots.iter().filter(|(key, _)| &**key != "frames") {
            clean.set(key.clone(), slot.clone());
        }
    }
    is_odd.then(|| shapes.intern(clean))
}
