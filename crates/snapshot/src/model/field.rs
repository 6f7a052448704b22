//! The keys whose values are fields of a record.

/// A key whose value is a field of the record itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Field {
    /// `action` of an entry.
    Action,
    /// `addr` of an entry.
    Addr,
    /// `device_free` of an `oom` entry; it is in the field of the address.
    DeviceFree,
    /// `size` of an entry or a block, in bytes.
    Size,
    /// `stream` of an entry or a segment.
    Stream,
    /// `time_us` of an entry or an annotation.
    TimeUs,
    /// `frames` of an entry, a block or a segment.
    Frames,
    /// `address` of a block or a segment.
    Address,
    /// `requested_size` of a block or a segment, in bytes.
    RequestedSize,
    /// `state` of a block.
    State,
    /// `device` of a segment or an annotation.
    Device,
    /// `total_size` of a segment, in bytes.
    TotalSize,
    /// `allocated_size` of a segment, in bytes.
    AllocatedSize,
    /// `active_size` of a segment, in bytes.
    ActiveSize,
    /// `segment_type`.
    SegmentType,
    /// `segment_pool_id`.
    SegmentPoolId,
    /// `is_expandable` of a segment.
    IsExpandable,
    /// `blocks` of a segment.
    Blocks,
    /// `name` of a frame or an annotation.
    Name,
    /// `filename` of a frame.
    Filename,
    /// `line` of a frame.
    Line,
    /// `stage` of an annotation.
    Stage,
    /// `segments` of the snapshot.
    Segments,
    /// `device_traces` of the snapshot.
    DeviceTraces,
    /// `host_segments` of the snapshot.
    HostSegments,
    /// `host_traces` of the snapshot.
    HostTraces,
    /// `external_annotations` of the snapshot.
    ExternalAnnotations,
}
