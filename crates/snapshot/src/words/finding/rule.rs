//! The rules of the format, each documented once; `schema/snapshot.md` is made from this list.
//!
//! A finding on the screen begins with a severity and a number, such as `E27`. That text is in the
//! documentation of the rule's variant here, and the variant's name is in the file that checks it.

use super::severity::Severity::{self, Error, Pytorch, Warning};

/// Makes the enum and its tables, so that a rule's documentation is also its text.
macro_rules! rules {
    ($($(#[doc = $text:literal])+ $name:ident = $number:literal [$($severity:ident),+],)+) => {
        /// A rule of the format (`docs/snapshot-format.md` 5), by what it is about.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Rule {
            $($(#[doc = $text])+ $name = $number,)+
        }

        impl Rule {
            /// All rules in the order of their numbers.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),+];

            /// Returns what the rule requires, case by case; each case begins with its severity and the rule's number.
            ///
            /// ```
            /// use memreel::validate::Rule;
            /// assert!(Rule::BlockState.text().starts_with("`E12`: "));
            /// ```
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Rule::$name => concat!($($text),+).trim_ascii_start(),)+
                }
            }

            /// Returns how bad a breach can be, the worst first.
            #[must_use]
            pub fn severities(self) -> &'static [Severity] {
                match self {
                    $(Rule::$name => &[$($severity),+],)+
                }
            }
        }
    };
}

impl Rule {
    /// Returns the rule's number, from 1 on, as findings show it.
    ///
    /// ```
    /// use memreel::validate::Rule;
    /// assert_eq!(Rule::BlockState.number(), 12);
    /// ```
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

rules! {
    /// `E1`: `segments` is a list and `device_traces` a list of lists; a bare list of segments is for PyTorch's
    /// tools alone. `P1`: the keys are in PyTorch's order; `host_*` and `external_annotations` are lists.
    TopLevelKeys = 1 [Error, Pytorch],
    /// `E2`: there is at least one trace, and one for the device of every segment; devices count from 0.
    TraceForEveryDevice = 2 [Error],
    /// `E3`: protocol 2 to 4, opcodes that the viewer supports, one value and a STOP; a batch has at most 60 000
    /// items. `W3`: a batch has at most 1000 items.
    PickleOpcodes = 3 [Error, Warning],
    /// `E4`: integers are within ±2^53; addresses and sizes are not negative; an integer is not a bool, a float or
    /// a text. Integers in settings and unknown keys count too. `W4`: an address of 2^63 or more, on which web
    /// viewers before June 2026 throw.
    Integers = 4 [Error, Warning],
    /// `E5`: no segment, block or entry is in the file twice through the memo.
    SharedRecords = 5 [Error],
    /// `E6`: texts are UTF-8 without byte order mark, keys are texts, no key is `__proto__`.
    Texts = 6 [Error],
    /// `W7`: the file has at most 300 MB, and a device at most 500 000 entries.
    FileSize = 7 [Warning],
    /// `E8`: a segment has `device`, `address`, `total_size`, `stream` and `blocks`. `P8`: the segment and its
    /// blocks have the other keys, in PyTorch's order; an empty `frames` may be in either place.
    SegmentKeys = 8 [Error, Pytorch],
    /// `E9`: the sizes of a segment's blocks add up to its `total_size`; no block has 0 bytes.
    BlockSizes = 9 [Error],
    /// `E10`: a block's `address`, if it has one, is the segment's plus the sizes before it. Only the first wrong
    /// one of a segment is reported.
    BlockAddresses = 10 [Error],
    /// `E11`: segments of one device do not overlap. `P11`: they are sorted by device and address.
    SegmentOverlap = 11 [Error, Pytorch],
    /// `E12`: `state` is one of the three. (`active_awaiting_free` is in PyTorch's documentation only.)
    BlockState = 12 [Error],
    /// `E13`: an active block's `requested_size` is at most its `size`, and is there if `frames` is.
    RequestedSize = 13 [Error],
    /// `E14`: a segment has `allocated_size`. `W14`: its three sums are those of its blocks.
    SegmentSums = 14 [Error, Warning],
    /// `P15`: free neighbours are merged; blocks are multiples of 512, segments of 2 MiB; of the segments that are
    /// not expandable exactly the small ones have 2 MiB. Host segments are exempt.
    Granularity = 15 [Pytorch],
    /// `E16`: `frames` is a list of frames, each with `name`, `filename` and `line`; `forward_frames` is a list of
    /// texts. `P16`: a frame's keys are in order. Reported once for each stack.
    Frames = 16 [Error, Pytorch],
    /// `E17`: an entry has an `action`, and it is a text. `W17`: it is one of the ten.
    Action = 17 [Error, Warning],
    /// `E18`: an `oom` has `device_free` and no `addr`, every other entry has `addr`; all have `size`. `W18`:
    /// `stream` is there; neither `addr` nor `size` is 0, except in a `snapshot`. `P18`: only an `oom` has
    /// `device_free`.
    EntryKeys = 18 [Error, Warning, Pytorch],
    /// `E19`: if any entry of any device has a `category`, one entry has `"unknown"`.
    Categories = 19 [Error],
    /// `E20`: `time_us` does not decrease where rule 21 fails in the order of the list; the finding says whether
    /// the order of the times mends it. `W20`: elsewhere, `time_us` is there and does not decrease by more than
    /// 1 ms. A time of 0 is an entry that could not be dated, and is skipped.
    Times = 20 [Error, Warning],
    /// `E21`: replayed forward, each address goes from unknown or free to live (`alloc`), to pending
    /// (`free_requested`), to free (`free_completed`). `W21`: no step skips pending; no block is freed whose alloc
    /// is not in the trace (one finding a trace); the trace can be replayed as far as rules 4, 17 and 18 go.
    Lifecycle = 21 [Error, Warning],
    /// `E22`: the sizes in one life of an address agree.
    LifeSizes = 22 [Error],
    /// `E23`: at the end live blocks are `active_allocated` and pending ones `active_pending_free`; where the trace
    /// reports free or nothing is, no active block begins. `W23`: every active block has an event (one finding a
    /// trace); the segments can be read.
    FinalState = 23 [Error, Warning],
    /// `E24`: a block's `requested_size` is the size of its last life.
    FinalRequestedSize = 24 [Error],
    /// `E25`: blocks in use at the same time do not overlap. Of blocks that ended the requested size counts:
    /// their rounding is not in the file.
    BlockOverlap = 25 [Error],
    /// `E26`: undone from the end, each `segment_alloc` finds a segment of exactly its place and size and each
    /// `segment_map` a range around its own; what `segment_free` and `segment_unmap` give back is not there yet.
    /// Mapped neighbours of the same stream count as one range.
    SegmentEvents = 26 [Error],
    /// `E27`: every block is within one segment for as long as it is in use. `W27`: both have the same stream, and
    /// the first entry is not of a segment with a block that has no alloc.
    BlockInSegment = 27 [Error, Warning],
    /// `E28`: a `snapshot` has `addr` 0. `W28`: its size is what was active then, as far as rounding is known.
    /// `P28`: it has no `frames`.
    SnapshotEntries = 28 [Error, Warning, Pytorch],
    /// `W29`: no kind of event is missing, as with `skip_actions`: no address is used again before its free was
    /// asked for and completed. A single kind without its counterpart does not count: a ring of one entry has
    /// nothing else.
    MissingEvents = 29 [Warning],
    /// `W30`: either all entries have `frames` or none, `snapshot` aside.
    MixedStacks = 30 [Warning],
    /// `P31`: the keys of entries are in the order of one of PyTorch's two writers throughout; contexts and
    /// metadata are texts, `pool_id` is two ints.
    KeyOrder = 31 [Pytorch],
    /// `W32`: an `annotate` names a live block and has a text.
    Annotate = 32 [Warning],
    /// `W33`: nothing hints at a full ring: a single entry (`enabled="state"`), a usual `max_entries`, or a first
    /// free whose alloc is not there. Only memreel's files record it, and then it is reported.
    FullRing = 33 [Warning],
    /// `P34`: annotations have their keys, a known device, and as many ENDs as STARTs for each name.
    Annotations = 34 [Pytorch],
    /// `P35`: settings are a dict that JSON can represent, `roundup_power2_divisions` last. Integers beyond 2^53
    /// in it belong to rule 4.
    Settings = 35 [Pytorch],
    /// `W36`: the timeline needs at most 20 million points: two for each of the 15 000 largest blocks above a
    /// block when it is freed.
    TimelineCost = 36 [Warning],
}
