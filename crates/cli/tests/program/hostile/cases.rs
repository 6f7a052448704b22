//! The hostile corpus: each case is a file whose cost is out of proportion to its size if a program is careless.
//!
//! A case is written with a count, from which the length of the file follows; [`Case::write`] finds the count for a
//! length. All cases of [`CASES`] can be pickles, and most JSON too.

#![forbid(unsafe_code)]

use std::io::Write;

use super::{
    machine, records,
    sink::{Form, Sink, length},
};

/// A file of the corpus.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Writes the file for a count of whatever the case has many of.
    make: fn(&mut Sink<'_>, usize),
    pub(super) is_json_too: bool,
}

impl Case {
    /// Writes the file with at most about this number of bytes.
    pub(super) fn write(&self, form: Form, n_bytes: usize, out: &mut dyn Write) {
        let [few, more] = [100, 200].map(|n| length(form, |sink| (self.make)(sink, n)));
        let n = match (more - few) as f64 / 100.0 {
            0.0 => 1,
            bytes_each => ((n_bytes as f64 - few as f64) / bytes_each + 100.0).max(1.0) as usize,
        };
        // Later records may be longer than the first.
        let n = match length(form, |sink| (self.make)(sink, n)) {
            longer if longer > n_bytes && n > 1 => (n as u128 * n_bytes as u128 / longer as u128) as usize,
            _ => n,
        };
        let mut sink = Sink::new(form, out);
        (self.make)(&mut sink, n);
        sink.finish();
    }
}

const fn both(name: &'static str, make: fn(&mut Sink<'_>, usize)) -> Case {
    Case { name, make, is_json_too: true }
}

const fn pickle(name: &'static str, make: fn(&mut Sink<'_>, usize)) -> Case {
    Case { name, make, is_json_too: false }
}

pub(super) const CASES: &[Case] = &[
    // Numbers that are taken for sizes.
    both("device-2p40", |sink, _| records::one_segment_on(sink, 1 << 40)),
    both("device-2e9", |sink, _| records::one_segment_on(sink, 2_000_000_000)),
    both("device-2p63", |sink, _| records::one_segment_on(sink, i64::MAX.into())),
    both("device-negative", |sink, _| records::one_segment_on(sink, -5)),
    both("devices-far", records::far_devices),
    both("devices", records::devices),
    both("devices-of-segments", records::devices_of_segments),
    both("devices-of-scopes", records::devices_of_scopes),
    both("devices-of-settings", records::devices_of_settings),
    both("traces-empty", records::empty_traces),
    both("traces-of-one", records::traces_of_one),
    both("pages", records::pages),
    both("sizes", records::sizes),
    // Hashes.
    both("addresses-collide", records::colliding_addresses),
    both("segments-collide", records::colliding_segments),
    both("addresses-far", records::far_addresses),
    both("streams", records::streams),
    both("streams-collide", records::colliding_streams),
    both("pools", records::pools),
    both("pools-of-segments", records::pools_of_segments),
    // Keys.
    both("keys-top", |sink, n| records::keys(sink, n, records::Place::Top)),
    both("keys-entry", |sink, n| records::keys(sink, n, records::Place::Entry)),
    both("keys-frame", |sink, n| records::keys(sink, n, records::Place::Frame)),
    both("keys-segment", |sink, n| records::keys(sink, n, records::Place::Segment)),
    both("keys-block", |sink, n| records::keys(sink, n, records::Place::Block)),
    both("keys-annotation", |sink, n| records::keys(sink, n, records::Place::Annotation)),
    both("keys-settings", |sink, n| records::keys(sink, n, records::Place::Settings)),
    both("keys-metadata", |sink, n| records::keys(sink, n, records::Place::Metadata)),
    both("keys-repeated", records::repeated_key),
    // Values that differ late.
    both("shapes-17", |sink, n| records::shapes(sink, n, records::Late::Element)),
    both("shapes-deep", |sink, n| records::shapes(sink, n, records::Late::Level)),
    both("shapes-text", |sink, n| records::shapes(sink, n, records::Late::Middle)),
    both("shapes-metadata", |sink, n| records::shapes(sink, n, records::Late::Text)),
    both("shapes-frames", records::shapes_of_frames),
    both("shapes-blocks", records::shapes_of_blocks),
    both("shapes-keys", records::shapes_of_keys),
    both("values-of-entries", records::many_values),
    // Texts.
    both("name-long", records::long_name),
    both("name-templates", records::template_name),
    both("name-shared", records::shared_name),
    both("names", records::names),
    both("names-of-blocks", records::block_names),
    both("actions", records::actions),
    // Stacks.
    both("stack-deep", records::deep_stack),
    pickle("stack-deep-used", records::deep_stack_used),
    both("stacks", records::stacks),
    pickle("stacks-of-triangle", records::triangle),
    pickle("stack-recursive", records::recursive_stack),
    // Scopes.
    both("scopes-one-name", records::scopes_of_one_name),
    both("scopes-nested", records::nested_scopes),
    both("scopes-never-end", records::endless_scopes),
    both("scopes-never-begin", records::beginless_scopes),
    both("scopes-metadata", records::metadata_scopes),
    both("scopes-long-name", records::long_scope),
    both("scopes-one-prefix", records::scopes_of_one_prefix),
    // Histories.
    both("windows", records::windows),
    both("frees-pending", records::pending_frees),
    both("frees-unknown", records::unknown_frees),
    both("lives-long", records::long_lives),
    both("lives-one-address", records::one_address),
    both("lives-overlap", records::overlapping_lives),
    both("segments-overlap", records::overlapping_segments),
    both("segments-nested", records::nested_segments),
    both("segments-mapped", records::mapped_segments),
    both("segments-freed", records::freed_segments),
    both("blocks", records::blocks),
    both("blocks-backwards", records::blocks_backwards),
    both("ooms", records::ooms),
    both("times-backwards", records::backward_times),
    both("times-far", records::far_times),
    // The pickle machine.
    pickle("machine-lists", |sink, n| sink.raw_times(b"]", n)),
    pickle("machine-dicts", |sink, n| sink.raw_times(b"}", n)),
    pickle("machine-tuples", |sink, n| sink.raw_times(b")", n)),
    pickle("machine-marks", |sink, n| sink.raw_times(b"(", n)),
    pickle("machine-nones", |sink, n| sink.raw_times(b"N", n)),
    pickle("machine-pairs", machine::pairs),
    pickle("machine-texts", machine::texts),
    pickle("machine-empty-bytes", |sink, n| sink.raw_times(b"C\0", n)),
    pickle("machine-big", |sink, n| sink.raw_times(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", n)),
    pickle("machine-mixed", |sink, n| sink.raw_times(b"](", n)),
    pickle("machine-memoized", |sink, n| sink.raw_times(b"]\x94", n)),
    pickle("memo-many", machine::many_memoize),
    pickle("memo-far", machine::far_numbers),
    pickle("memo-again", machine::memo_again),
    pickle("memo-get", machine::many_gets),
    pickle("memo-laughs", machine::laughs),
    pickle("memo-laughs-wide", machine::wide_laughs),
    pickle("frames-of-protocol", |sink, n| sink.raw_times(b"\x95\0\0\0\0\0\0\0\0", n)),
    both("nested-lists", machine::nested),
    both("value-lists", |sink, n| machine::value(sink, n, machine::Item::List)),
    both("value-dicts", |sink, n| machine::value(sink, n, machine::Item::Dict)),
    both("value-nones", |sink, n| machine::value(sink, n, machine::Item::None)),
    both("value-texts", |sink, n| machine::value(sink, n, machine::Item::Text)),
    both("value-of-pairs", |sink, n| machine::value(sink, n, machine::Item::Pair)),
    pickle("entries-empty", |sink, n| machine::entries(sink, n, b"}")),
    both("records-empty", records::empty_records),
    pickle("entries-small", |sink, n| machine::entries(sink, n, b"}(h\x01h\x02u")),
    pickle("entries-one", machine::one_entry_often),
    pickle("segments-empty", |sink, n| machine::segments(sink, n, b"}")),
    pickle("blocks-empty", machine::empty_blocks),
];
