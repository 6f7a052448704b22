//! `annotations`: a row for each beginning and each end of a scope.

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{Snapshot, model::Annotation};

use crate::{
    columns::{Column, Kind, Rows, column, integers, texts},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device it was opened on"),
    column("time_us", Kind::Integer, "microseconds since the Unix epoch"),
    column("stage", Kind::Text, "`START` or `END`"),
    column("name", Kind::Text, "the scope's name"),
];

struct Annotations;

impl Rows for Annotations {
    type Row = Annotation;

    fn column(&self, name: &str, rows: &[Annotation]) -> ArrayRef {
        match name {
            "device" => integers(rows, |annotation| Some(annotation.device.0)),
            "time_us" => integers(rows, |annotation| Some(annotation.time_us)),
            "stage" => texts(rows, |annotation| Some(annotation.stage.clone())),
            "name" => texts(rows, |annotation| Some(annotation.name.clone())),
            other => unreachable!("{other} is not a column of annotations"),
        }
    }
}

/// Hands out the annotations, in the order of the file.
pub(super) fn read(head: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    sink.take(&Annotations, head.external_annotations.clone())
}
