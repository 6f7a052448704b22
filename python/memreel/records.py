"""The objects of the program's answers. Made by generate_records.py from schema/json.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memreel.answer import Answer, Nested, Record
from memreel.judged import Judged
from memreel.listing import Listing


@dataclass(frozen=True)
class Totals(Record):
    """Memory at a moment."""

    event: int | None
    """The moment, after this event."""
    active_bytes: int
    """Requested bytes in use, those of blocks that wait for a stream included."""
    allocated_bytes: int
    """Requested bytes that the program holds."""
    reserved_bytes: int
    """Bytes held from the device."""
    blocks: int
    """Blocks in use."""


@dataclass(frozen=True)
class Failure(Record):
    """A request that failed, in short."""

    event: int
    """The event."""
    requested_bytes: int
    """The request, after rounding."""
    verdict: Literal["grew", "free and not used", "fragmented", "rounded up", "free elsewhere", "pending", "limited", "occupied", "full", "addresses"]
    """The kind of the first cause (`memreel help oom`)."""
    why: str
    """The finding of the first cause."""
    n_ooms: int
    """Requests that failed."""


@dataclass(frozen=True)
class Frame(Record):
    """A call of a stack."""

    name: str
    """The function."""
    filename: str
    """The path of its source file; `??` if it is unknown."""
    line: int
    """The line; 0 if it is unknown."""
    is_shown: bool
    """Whether it is one of the calls that identify the code that allocated, which the text shows."""


@dataclass(frozen=True)
class ReservedGrowth(Record):
    """How reserved memory grew at the ends of a step, beyond the most that was in use until then. The call is the one that most of it was reserved for."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    grown_bytes: int
    """By how much."""
    grown_repeats: int
    """The number of steps in which it grew."""
    began_event: int | None
    """The end of the step before the first of these."""
    segments: int
    """Segments, or mapped pieces of them, that were reserved since for the call and are held."""
    site_bytes: int
    """The bytes of these."""
    stack: list[Frame] | None
    """The call: all frames of its stack, innermost first; null if no stack was recorded."""
    size_bytes: int | None = None
    """Only of what has no stack: the size of each."""


@dataclass(frozen=True)
class IdleStreams(Record):
    """Streams that keep free memory of one call, which only requests of the same stream can use."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    streams: int
    """The number of streams."""
    segments: int
    """The number of their segments."""
    reserved_bytes: int
    """The bytes of these."""
    free_bytes: int
    """The bytes of these that are free."""
    most_in_use_bytes: int
    """The most bytes of blocks that these streams had in use at once."""
    stack: list[Frame] | None
    """The call: all frames of its stack, innermost first; null if no stack was recorded."""
    size_bytes: int | None = None
    """Only of what has no stack: the size of each."""


@dataclass(frozen=True)
class PoolUse(Record):
    """What the segments of a pool hold. The call is the one that most of its free bytes were reserved for."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    pool_id: list[int]
    """`[0, 0]` of the default pool, `[n, 0]` of a graph capture, `[0, n]` of a MemPool."""
    kind: Literal["default", "graph", "MemPool"]
    """What made it: the allocator, a capture, the program. `empty_cache` returns segments of the default pool alone."""
    segments: int
    """The number of its segments."""
    reserved_bytes: int
    """The bytes of these."""
    block_bytes: int
    """The bytes of their blocks, with what rounding adds."""
    free_bytes: int
    """Their free bytes."""
    empty_bytes: int
    """The bytes of those without a block."""
    stack: list[Frame] | None
    """The call: all frames of its stack, innermost first; null if no stack was recorded."""
    size_bytes: int | None = None
    """Only of what has no stack: the size of each."""


@dataclass(frozen=True)
class LeakGrowth(Record):
    """How a site grew."""

    kind: Literal["steady", "late", "larger step"]
    """How it grew: all along, late, or because its step is larger than those before it."""
    grown_bytes: int
    """Requested bytes beyond the most that it held in any earlier repeat; of a leak, beyond what it had kept before the first repeat in which it grew."""
    began_event: int | None
    """The alloc that took it above that."""
    grown_blocks: int
    """Blocks that were allocated since and are held."""
    grown_repeats: int
    """Whole repeats in which it grew."""


@dataclass(frozen=True)
class LeakSite(Record):
    """A site that holds blocks at the end."""

    _nested: ClassVar[Nested] = {"growth": lambda: LeakGrowth, "stack": lambda: Frame}
    bytes: int
    """Requested bytes of its live blocks."""
    live: int
    """These blocks."""
    allocated: int
    """Allocations: over the whole run where a recorder says so, or within the history."""
    freed: int
    """Those whose block is free at the end."""
    oldest_event: int | None
    """The alloc of the oldest live block; null from before the history."""
    newest_event: int | None
    """The alloc of the newest live block; null from before the history."""
    bytes_after_each_quarter: list[int]
    """Bytes held after each quarter of the history."""
    is_growing: bool
    """Whether they grew in every quarter."""
    growth: LeakGrowth | None
    """How they grew since the program repeated itself; null if they did not."""
    claim: Literal["leak", "grew", "may be a leak", "held"]
    """What is said of the site."""
    doubt: str | None
    """Why it only may be a leak; null if that is not said of it."""
    made: Literal["gradients", "optimizer states", "activations of a forward", "weights", "a captured graph", None]
    """What its blocks are, if its stack says that they are made once and kept; null of others, and of what grew."""
    stacks: int | None = None
    """The recorded stacks that look the same; absent if there is none."""
    stack: list[Frame] | None = None
    """All frames of the stack, innermost first; null if the blocks have none. Absent in a group of something else."""
    size_bytes: int | None = None
    """Only of blocks without a stack, which are grouped by the size that was requested."""


@dataclass(frozen=True)
class Group(Record):
    """Blocks of one stack."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    bytes: int
    """The bytes that they requested; of a function or a file, those that it requested itself."""
    blocks: int
    """The blocks."""
    total_bytes: int
    """The same as `bytes`."""
    stacks: int | None = None
    """The recorded stacks that look the same; absent if there is none."""
    names: list[str] | None = None
    """The names that the program gave to blocks; absent if there are none."""
    stack: list[Frame] | None = None
    """All frames of the stack, innermost first; null if the blocks have none. Absent in a group of something else."""
    size_bytes: int | None = None
    """Only of blocks without a stack, which are grouped by the size that was requested."""


@dataclass(frozen=True)
class Rest(Record):
    """The results that the list leaves out."""

    count: int
    """How many there are."""
    bytes: int
    """Their bytes."""


@dataclass(frozen=True, repr=False)
class Summary(Listing[Group]):
    """What a device of a file shows."""

    _rows: ClassVar[str] = "holders"
    _nested: ClassVar[Nested] = {"peak": lambda: Totals, "end": lambda: Totals, "most_reserved": lambda: Totals, "oom": lambda: Failure, "reserved_growth": lambda: ReservedGrowth, "idle_streams": lambda: IdleStreams, "pools": lambda: PoolUse, "growing": lambda: LeakSite, "holders": lambda: Group, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    memreel_version: str | None
    """The memreel that recorded it; null if that was PyTorch or another tool."""
    settings: str | None
    """The allocator's settings, as `PYTORCH_ALLOC_CONF` has them; null before PyTorch 2.3."""
    events: int
    """Events of the history."""
    span_us: int | None
    """From the first event to the last; null if no times were recorded."""
    is_whole: bool
    """Whether the history is recorded from its beginning and its figures are exact."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    peak: Totals
    """The first moment with the most bytes in use."""
    peak_is_of_run: bool
    """Whether that is the peak of the whole run, also of events that the ring lost; it then has no event if those are lost."""
    end: Totals
    """The end."""
    most_reserved: Totals
    """The first moment with the most bytes reserved."""
    oom: Failure | None
    """The last request that failed; null if none did."""
    close_calls: int
    """Requests that the device refused, and served when the whole cache had been given back."""
    reserved_growth: ReservedGrowth | None
    """How reserved memory grew step by step while no more was in use; null if it did not."""
    idle_streams: list[IdleStreams]
    """The calls for which several streams keep free memory at the end, at most 3."""
    pools: list[PoolUse]
    """What the pools hold at the end: the default one, and the private ones with the most free bytes, at most 4."""
    n_growing: int
    """Sites that grew in every quarter of the history."""
    growing: list[LeakSite]
    """The largest of them, at most 3."""
    holders: list[Group]
    """The largest holders at the peak, at most 3."""
    rest: Rest
    """The holders behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class TopGroup(Record):
    """Blocks of one stack or, with `--by`, of one function, file, line, scope, name, stream, pool or owner."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    bytes: int
    """The bytes that they requested; of a function or a file, those that it requested itself."""
    blocks: int
    """The blocks."""
    total_bytes: int
    """Of a function or a file, the bytes of its callees too; otherwise as `bytes`."""
    stacks: int | None = None
    """The recorded stacks that look the same; absent if there is none."""
    names: list[str] | None = None
    """The names that the program gave to blocks; absent if there are none."""
    peak_bytes: int | None = None
    """Only of `--allocated` over a whole run: the most bytes that were live at once."""
    peak_is_at_most: bool | None = None
    """Whether `peak_bytes` is only known not to be exceeded: the peaks of several stacks of the site were added up, and need not have come at one time."""
    stack: list[Frame] | None = None
    """All frames of the stack, innermost first; null if the blocks have none. Absent in a group of something else."""
    size_bytes: int | None = None
    """Only of blocks without a stack, which are grouped by the size that was requested."""
    function: str | None = None
    """The function (`--by function`); null for blocks without a stack."""
    filename: str | None = None
    """Its source file (`--by function`, `--by file` and `--by line`); null for blocks without a stack."""
    line: int | None = None
    """The line of the source file (`--by line`)."""
    stream: int | None = None
    """The handle of the stream (`--by stream`)."""
    pool_id: list[int] | None = None
    """The pool (`--by pool`): `[0, 0]` of the default pool, `[n, 0]` of a graph capture, `[0, n]` of a MemPool; null if the file does not name it."""
    scope: str | None = None
    """The scope (`--by scope`): empty outside of all, null for blocks from before the history."""
    name: str | None = None
    """The name of a block (`--by name`); null for blocks without one."""
    owner: str | None = None
    """The owner (`--by owner`), of which `bytes` are held from the device, in `blocks` pieces."""


@dataclass(frozen=True, repr=False)
class Top(Listing[TopGroup]):
    """`top`, with or without `--by`."""

    _rows: ClassVar[str] = "groups"
    _nested: ClassVar[Nested] = {"groups": lambda: TopGroup, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    event: int | None
    """The moment, after this event."""
    active_bytes: int
    """Requested bytes in use, those of blocks that wait for a stream included."""
    allocated_bytes: int
    """Requested bytes that the program holds."""
    reserved_bytes: int
    """Bytes held from the device."""
    blocks: int
    """Blocks in use."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    is_whole: bool
    """Whether, besides, the history is recorded from its beginning."""
    is_of_run: bool
    """Whether the moment is the peak of the whole run, also of events that the ring lost; it then has no event if those are lost."""
    groups: list[TopGroup]
    """The largest holders, at most `-n`."""
    rest: Rest
    """The groups behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class Call(Record):
    """A call in a tree."""

    name: str
    """The function."""
    filename: str
    """The path of its source file; `??` if it is unknown."""
    line: int
    """The line; 0 if it is unknown."""


@dataclass(frozen=True)
class Branch(Record):
    """A call in a tree; its branches follow it, one deeper."""

    _nested: ClassVar[Nested] = {"frame": lambda: Call}
    depth: int
    """How deep it is."""
    frame: Call | None
    """The call; null for blocks without a stack."""
    bytes: int
    """The bytes that it and its callees requested."""
    blocks: int
    """Their blocks."""
    calls_left_out: int | None = None
    """The deeper calls of its longest stack, which the tree leaves out after 1024 calls."""


@dataclass(frozen=True, repr=False)
class Tree(Listing[Branch]):
    """`top --tree`."""

    _rows: ClassVar[str] = "tree"
    _nested: ClassVar[Nested] = {"tree": lambda: Branch}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    event: int | None
    """The moment, after this event."""
    active_bytes: int
    """Requested bytes in use, those of blocks that wait for a stream included."""
    allocated_bytes: int
    """Requested bytes that the program holds."""
    reserved_bytes: int
    """Bytes held from the device."""
    blocks: int
    """Blocks in use."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    is_whole: bool
    """Whether, besides, the history is recorded from its beginning."""
    is_of_run: bool
    """Whether the moment is the peak of the whole run, also of events that the ring lost; it then has no event if those are lost."""
    tree: list[Branch]
    """The calls from the outermost inward, without branches below 1 %."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True, repr=False)
class TopNew(Listing[TopGroup]):
    """`top --new`."""

    _rows: ClassVar[str] = "groups"
    _nested: ClassVar[Nested] = {"groups": lambda: TopGroup, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    since_event: int | None
    """The last event that is not counted."""
    n_events: int
    """Events after it."""
    peak_event: int | None
    """The first moment with the most bytes of new blocks."""
    peak_bytes: int
    """Requested bytes of the new blocks that the program holds then."""
    peak_blocks: int
    """Their number."""
    left_bytes: int
    """Requested bytes of the new blocks that the program holds at the end."""
    left_blocks: int
    """Their number."""
    is_complete: bool
    """Whether every event after `since_event` is in the history."""
    event: int | None
    """The moment of the groups, after this event."""
    allocated_bytes: int
    """Requested bytes of the new blocks that the program holds then."""
    blocks: int
    """Their number."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    groups: list[TopGroup]
    """The largest holders, at most `-n`."""
    rest: Rest
    """The groups behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True, repr=False)
class TopAllocated(Listing[TopGroup]):
    """`top --allocated`."""

    _rows: ClassVar[str] = "groups"
    _nested: ClassVar[Nested] = {"groups": lambda: TopGroup, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    allocated_bytes: int
    """Requested bytes of all blocks that were allocated, freed or not."""
    blocks: int
    """Their number."""
    is_of_run: bool
    """Whether these are the recorder's sums over the whole run, also of events that its ring lost, and not those of the events in the file."""
    is_exact: bool
    """Whether the figures are exact."""
    groups: list[TopGroup]
    """The stacks that allocated the most, at most `-n`."""
    rest: Rest
    """The groups behind them."""
    warnings: list[str]
    """What limits the figures of the events in the file, one sentence each; empty if nothing does."""


@dataclass(frozen=True, repr=False)
class Leaks(Listing[LeakSite]):
    """`leaks` without an option."""

    _rows: ClassVar[str] = "sites"
    _nested: ClassVar[Nested] = {"sites": lambda: LeakSite, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    allocated_bytes: int
    """Requested bytes that the program holds at the end."""
    n_growing: int
    """Sites that grew in every quarter of the history."""
    n_leaks: int
    """Sites that leak: they grew in each of at least three repeats, or over the whole of a long history."""
    n_grew: int
    """Sites that hold more than in every earlier step."""
    n_may_be_leaks: int
    """Sites that may be leaks, each with its `doubt`."""
    sites: list[LeakSite]
    """The leaks first, then what grew, what may be a leak, and what is held; of each those with the most bytes first; at most `-n`."""
    rest: Rest
    """The sites behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True, repr=False)
class LeaksBetween(Listing[Group]):
    """`leaks --between`."""

    _rows: ClassVar[str] = "groups"
    _nested: ClassVar[Nested] = {"groups": lambda: Group, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    bytes: int
    """Bytes allocated between the ends of the scopes and still held."""
    blocks: int
    """Their blocks."""
    groups: list[Group]
    """The largest, at most `-n`."""
    rest: Rest
    """The groups behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True, repr=False)
class LeaksOlder(Listing[Group]):
    """`leaks --older-than`."""

    _rows: ClassVar[str] = "groups"
    _nested: ClassVar[Nested] = {"groups": lambda: Group, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    bytes: int
    """Bytes held for at least this number of events."""
    blocks: int
    """Their blocks."""
    perhaps_bytes: int
    """Bytes from before a history that is shorter than that."""
    perhaps_blocks: int
    """Their blocks."""
    groups: list[Group]
    """The largest, at most `-n`."""
    rest: Rest
    """The groups behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class ChurnSite(Record):
    """A site that allocates and frees one size."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    cycles: int
    """How often."""
    size_bytes: int
    """The requested size of each block."""
    bytes: int
    """The requested bytes of all."""
    mean_life_events: int
    """The mean number of events from the alloc to the end of the free."""
    stack: list[Frame] | None
    """All frames of the stack, innermost first; null if the blocks have none."""
    stacks: int | None = None
    """The recorded stacks that look the same; absent if there is none."""


@dataclass(frozen=True, repr=False)
class Churn(Listing[ChurnSite]):
    """The sites of a device that allocate and free one size again and again."""

    _rows: ClassVar[str] = "sites"
    _nested: ClassVar[Nested] = {"sites": lambda: ChurnSite, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    cycles: int
    """Cycles of alloc and free that repeat one size."""
    sites: list[ChurnSite]
    """The sites with the most cycles, at most `-n`."""
    rest: Rest
    """The sites behind them."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class Usage(Record):
    """How the reserved memory is used at a moment."""

    event: int | None
    """The moment, after this event."""
    reserved_bytes: int
    """Bytes held from the device."""
    active_bytes: int
    """Requested bytes in use."""
    external_bytes: int
    """Reserved bytes in no block."""
    internal_bytes: int
    """Bytes in blocks beyond the requested ones."""


@dataclass(frozen=True)
class Wanted(Record):
    """The request for which free memory matters: the last one that failed, or else the largest one after a moment."""

    event: int
    """The number of its event."""
    bytes: int
    """Its bytes."""
    has_failed: bool
    """Whether it failed."""
    stream: int
    """The handle of its stream."""
    kind: Literal["small", "large"]
    """The kind of pool that serves it."""
    pool_id: list[int] | None
    """Its pool; null if the file does not name it (before PyTorch 2.12) and has private pools, so that the default pool counts."""


@dataclass(frozen=True)
class StreamUse(Record):
    """What the segments of a stream hold. The call is the one that most of its free bytes were reserved for."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    stream: int
    """The stream's handle."""
    segments: int
    """The number of its segments."""
    reserved_bytes: int
    """The bytes of these."""
    block_bytes: int
    """The bytes of their blocks, with what rounding adds."""
    free_bytes: int
    """Their free bytes."""
    empty_bytes: int
    """The bytes of those without a block."""
    stack: list[Frame] | None
    """The call: all frames of its stack, innermost first; null if no stack was recorded."""
    size_bytes: int | None = None
    """Only of what has no stack: the size of each."""


@dataclass(frozen=True)
class IdlePool(Record):
    """A private pool that no block uses."""

    pool_id: list[int]
    """`[n, 0]` of a graph capture, `[0, n]` of a user."""
    reserved_bytes: int
    """The bytes of its segments."""
    segments: int
    """The number of its segments."""


@dataclass(frozen=True)
class Site(Record):
    """A stack, or the size of blocks without one."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    stack: list[Frame] | None
    """All frames, innermost first; null if there is none."""
    size_bytes: int | None = None
    """Only of blocks without a stack: the size that was requested."""


@dataclass(frozen=True)
class Pinned(Record):
    """A segment that few blocks keep from being returned."""

    _nested: ClassVar[Nested] = {"largest": lambda: Site}
    address: int
    """The first byte."""
    bytes: int
    """The size."""
    free_bytes: int
    """Its free bytes."""
    blocks: int
    """The blocks in it."""
    used_bytes: int
    """Their bytes."""
    largest: Site
    """The site of the largest of them."""


@dataclass(frozen=True, repr=False)
class Fragmentation(Listing[Pinned]):
    """The reserved memory of a device that no block uses."""

    _rows: ClassVar[str] = "pinned"
    _nested: ClassVar[Nested] = {"at": lambda: Usage, "most_reserved": lambda: Usage, "most_waste": lambda: Usage, "wanted": lambda: Wanted, "streams": lambda: StreamUse, "idle_streams": lambda: IdleStreams, "pools": lambda: PoolUse, "idle_pools": lambda: IdlePool, "pinned": lambda: Pinned, "rest": lambda: Rest}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    at: Usage
    """The moment of `--at`."""
    most_reserved: Usage
    """The first moment with the most bytes reserved."""
    most_waste: Usage
    """The first moment with the most bytes in no block."""
    free_bytes: int
    """Free bytes of the segments at the moment of `--at`."""
    free_pieces: int
    """The pieces that they are in."""
    largest_free_bytes: int
    """The largest piece."""
    empty_segments_bytes: int
    """Segments without blocks."""
    returnable_bytes: int
    """Those of them that `empty_cache` returns: not the ones of private pools."""
    wanted: Wanted | None
    """The request that the pinned segments could serve; null if they are all pinned segments."""
    streams: list[StreamUse]
    """What the segments of each stream hold, those with the most free bytes first; at most `-n`."""
    idle_streams: list[IdleStreams]
    """The calls for which several streams keep free memory; at most `-n`."""
    pools: list[PoolUse]
    """What the segments of each pool hold: of the default pool, then of private ones, those with the most free bytes first; at most `-n`."""
    idle_pools: list[IdlePool]
    """Private pools that no block uses: perhaps of failed captures."""
    pinned: list[Pinned]
    """Segments with free bytes and with blocks that could serve the request `wanted`, or all of them without one; those with the most free bytes first; at most `-n`."""
    rest: Rest
    """The segments behind them, with their free bytes."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class FailedRequest(Record):
    """A request that failed."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    event: int
    """The event."""
    verdict: Literal["grew", "free and not used", "fragmented", "rounded up", "free elsewhere", "pending", "limited", "occupied", "full", "addresses"]
    """The kind of the first cause (`memreel help oom`)."""
    is_limited: bool
    """Whether the device had enough free, so that a limit refused."""
    why: str
    """The finding of the first cause."""
    n_ooms: int
    """Requests that failed."""
    requested_bytes: int
    """The request, after rounding."""
    segment_bytes: int
    """The segment or the pages that it needs."""
    device_free_bytes: int
    """What the device had free."""
    outside_bytes: int | None
    """What others held of the device; null in answers about files, which do not have its size."""
    reserved_bytes: int
    """Bytes held from the device."""
    allocated_bytes: int
    """Requested bytes that the program held."""
    active_bytes: int
    """These, and those of blocks that wait for a stream."""
    free_here_bytes: int
    """Free bytes that its stream and pool could have used."""
    largest_free_bytes: int
    """The largest piece of them."""
    free_elsewhere_bytes: int
    """Free bytes of other streams and pools."""
    free_pages_bytes: int
    """Whole pages of them, which an expandable segment could return."""
    reserved_address_bytes: int | None
    """The addresses that the process had reserved, if the request was for addresses to map memory at; null if it was for memory."""
    fits_compacted: bool
    """Whether it fits if all that is free here were one piece."""
    fits_expandable: bool | None
    """Whether `with_expandable_segments` is `yes`; null if it is `perhaps`."""
    with_expandable_segments: Literal["yes", "no", "perhaps"]
    """What a replay with expandable segments says."""
    is_expandable: bool
    """Whether they were on."""
    pool_id: list[int] | None
    """The pool of the request; null where the file does not name it."""
    pending_bytes: int
    """Bytes that were freed and wait for a stream."""
    pending_blocks: int
    """Their blocks."""
    is_last: bool
    """Whether no block was allocated or freed afterwards; otherwise free figures are upper bounds."""
    stack: list[Frame] | None
    """The stack of the request; null if it has none."""


@dataclass(frozen=True)
class Cause(Record):
    """A cause of a failed request."""

    kind: str
    """`limited`, `grew`, `free and not used`, `fragmented`, `rounded up`, `free elsewhere`, `pending`, `occupied`, `full` or `addresses`."""
    bytes: int
    """What the process would have had without it."""
    finding: str
    """What was found, in a sentence."""
    advice: str | None
    """What to do, with the result of a replay; null if nothing was tried."""
    conf: str | None
    """The advised setting, as a text of PYTORCH_ALLOC_CONF."""


@dataclass(frozen=True)
class GrownSite(Record):
    """A site that grew."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    kind: Literal["steady", "late", "larger step"]
    """How it grew: all along, late, or because its step is larger than those before it."""
    grown_bytes: int
    """Requested bytes beyond the most that it held in any earlier repeat; of a leak, beyond what it had kept before the first repeat in which it grew."""
    held_bytes: int
    """Requested bytes of its blocks that the program holds."""
    usual_bytes: int
    """The most that it held in any earlier repeat; of a leak, what it had kept before the first in which it grew."""
    grown_repeats: int
    """Whole repeats in which it grew."""
    began_event: int | None
    """The alloc that took it above that."""
    grown_blocks: int
    """Blocks that were allocated since and are held."""
    stacks: int | None = None
    """The recorded stacks that look the same; absent if there is none."""
    stack: list[Frame] | None = None
    """All frames of the stack, innermost first; null if the blocks have none. Absent in a group of something else."""
    size_bytes: int | None = None
    """Only of blocks without a stack, which are grouped by the size that was requested."""


@dataclass(frozen=True)
class Served(Record):
    """How many requests would be served."""

    n_requests: int
    """Requests of the size of the failed one, itself included, one after the other; at most 1000."""


@dataclass(frozen=True)
class TriedSetting(Record):
    """A setting that was tried."""

    conf: str
    """The setting, as a text of PYTORCH_ALLOC_CONF."""
    is_recorded: bool
    """Whether it is the recorded setting. Those behind it are not better."""
    n_requests: int
    """Requests that it serves, as in `served`."""
    num_after: int
    """Recorded requests after the failed one."""
    num_served_after: int
    """How many of these it serves."""
    num_ooms: int
    """Requests that fail, of the whole history."""
    reserved_peak_bytes: int
    """The most bytes that are reserved."""
    num_device_calls: int
    """Calls to the device."""


@dataclass(frozen=True)
class Tried(Record):
    """What replays of the history say of a failed request."""

    _nested: ClassVar[Nested] = {"without_growth": lambda: Served, "settings": lambda: TriedSetting}
    with_expandable: Literal["yes", "no", "perhaps"]
    """Whether expandable segments would have served it."""
    needed_bytes: int | None
    """A limit that would have served it; null if the process had none, or if it is not known."""
    is_certain: bool
    """Whether the replay of the recorded setting repeats the recorded run, so that what replays say is sure."""
    without_growth: Served | None
    """What would be served without the blocks by which sites grew; null if none did, or if it is not known."""
    settings: list[TriedSetting]
    """The settings of `replay --sweep` that are worth a look, the best first."""


@dataclass(frozen=True)
class OtherProcess(Record):
    """A process that a message names."""

    pid: int
    """Its PID."""
    bytes: int
    """Its memory."""


@dataclass(frozen=True)
class MessagePart(Record):
    """Memory that a log has under a name."""

    name: str
    """The name: `KV buffer`, `total allocation`."""
    bytes: int
    """The bytes."""


@dataclass(frozen=True)
class LoggedCall(Record):
    """A call of a traceback in a log."""

    name: str
    """The function."""
    filename: str
    """Its file."""
    line: int
    """The line in the file."""


@dataclass(frozen=True)
class Message(Record):
    """An out-of-memory message; a figure that it does not have is null."""

    _nested: ClassVar[Nested] = {"others": lambda: OtherProcess, "parts": lambda: MessagePart, "calls": lambda: LoggedCall}
    program: str
    """`PyTorch`, `PyTorch (MPS)`, `JAX (XLA)`, `TensorFlow`, `CuPy`, `llama.cpp (ggml)` or `memreel`."""
    accelerator: str | None
    """`CUDA`, `HIP` or another that PyTorch names."""
    line: int
    """Its line, from 1."""
    rank: str | None
    """The rank, worker or service, by the prefix of the line."""
    device: int | None
    """The device."""
    requested_bytes: int
    """The requested bytes; of PyTorch, the segment that the device refused."""
    capacity_bytes: int | None
    """All memory of the device."""
    free_bytes: int | None
    """Free memory of the device."""
    process_bytes: int | None
    """Memory of this process, that of other libraries included."""
    others: list[OtherProcess]
    """The other processes that it names."""
    limit_bytes: int | None
    """The limit of the process or its pool."""
    allocated_bytes: int | None
    """Bytes in blocks of the program, with those of `private_pool_bytes`."""
    private_pool_bytes: int | None
    """Bytes in free blocks of private pools."""
    unallocated_bytes: int | None
    """Bytes that the allocator has and no block uses."""
    other_bytes: int | None
    """Memory in use that the allocator did not provide (MPS)."""
    parts: list[MessagePart]
    """What other lines of the log say of the memory."""
    rounding_bytes: int
    """No figure is off by more."""
    releases: list[int | None] | None
    """The first and the last release 2.x that print this form; null if it does not show any."""
    calls: list[LoggedCall]
    """The calls of the traceback before it, innermost first; empty without one."""
    is_beyond_reserve: bool
    """Whether it says that the request is larger than a segment may become (`expandable_segments_reserve`)."""
    is_cut: bool
    """Whether it ends before its last figure."""
    unread: list[str]
    """Its parts with figures that are not known: those of a later version."""


@dataclass(frozen=True, repr=False)
class Oom(Listing[Cause]):
    """A request failed."""

    _rows: ClassVar[str] = "causes"
    _nested: ClassVar[Nested] = {"oom": lambda: FailedRequest, "causes": lambda: Cause, "grown": lambda: GrownSite, "tried": lambda: Tried, "live": lambda: Group, "pending": lambda: Group, "rest": lambda: Rest, "message": lambda: Message}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    oom: FailedRequest
    """The last request that failed."""
    causes: list[Cause]
    """Why it failed, the first to act on first."""
    grown: list[GrownSite]
    """The sites that grew until the request, which counts as served, at most `-n`."""
    tried: Tried
    """What replays of the history say."""
    live: list[Group]
    """The largest holders at that moment, at most `-n`."""
    pending: list[Group]
    """The largest holders of blocks that wait for a stream, at most `-n`."""
    rest: Rest
    """The live groups behind the listed ones."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    message: Message | None
    """The message of `--log` about the device, with the other processes; null without one."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class LoggedRank(Record):
    """The messages of a rank."""

    rank: str | None
    """The rank, worker or service, by the prefix of the line."""
    device: int | None
    """The device that its messages name."""
    program: str
    """What printed them."""
    n_messages: int
    """Its messages, repeated ones not counted."""
    first_line: int
    """The line of the first."""
    line: int
    """The line of the last."""
    requested_bytes: int
    """What the last requested."""
    verdict: str | None
    """The kind of its first cause."""


@dataclass(frozen=True, repr=False)
class LoggedOom(Listing[Cause]):
    """The last out-of-memory message of a log."""

    _rows: ClassVar[str] = "causes"
    _nested: ClassVar[Nested] = {"message": lambda: Message, "ranks": lambda: LoggedRank, "causes": lambda: Cause}
    file: str
    """The log, as it was given."""
    device: int | None
    """The device that the message names; null if it names none."""
    message: Message
    """The message."""
    verdict: str | None
    """The kind of the first cause; null if the message does not have the figures that decide."""
    releases: str | None
    """The releases of PyTorch that print this form, within what the form shows: `PyTorch 2.5 or later`."""
    n_lines: int
    """Lines of the log."""
    n_messages: int
    """Its messages."""
    n_repeated: int
    """Those with the figures of the one before by the same rank."""
    first_line: int
    """The line of the first message."""
    ranks: list[LoggedRank]
    """The last message of each rank and device, by first appearance."""
    causes: list[Cause]
    """Why the request failed, the first to act on first."""
    notes: list[str]
    """What limits the figures, one sentence each."""
    record: list[str]
    """Lines that record what holds the memory next time."""


@dataclass(frozen=True)
class OwnerRow(Record):
    """The memory of one owner."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame, "now_stack": lambda: Frame}
    owner: str
    """The library, `program`, `unknown`, a part of the driver such as `driver:context`, or what the row is about."""
    kind: Literal["owner", "driver", "allocator", "mapped", "shared", "files", "library", "stacks", "recorder", "pool_slack", "page_rounding", "other_processes", "no_process", "unexplained"]
    """What the row is about."""
    now_bytes: int | None
    """The bytes at the last report, or at the end without one."""
    peak_bytes: int | None
    """The bytes at the highest report, or without one when the most was recorded."""
    largest_file: str | None
    """The file with the most of it; null unless it is memory of files."""
    largest_file_bytes: int | None
    """The bytes of that file."""
    stack_bytes: int | None
    """The bytes that the stack requested; null without a stack."""
    stack: list[Frame] | None
    """All frames of the stack that requested the most at the peak, innermost first; null if there is none."""
    now_stack_bytes: int | None
    """The bytes of now that `now_stack` requested; null without a stack."""
    now_stack: list[Frame] | None
    """All frames of the stack that requested the most of what is there now, innermost first; null if there is none."""


@dataclass(frozen=True)
class GroupFigures(Record):
    """What a cgroup has of the host's memory, as the kernel counts it."""

    used_bytes: int
    """What it has."""
    peak_bytes: int | None
    """The most that it had; null where the kernel does not say."""
    limit_bytes: int | None
    """The most that it may have; null without a limit."""
    cache_bytes: int
    """Files that are cached, which the kernel can give up."""
    shared_bytes: int
    """Shared memory, which it cannot."""
    kernel_bytes: int
    """The kernel's own: page tables, sockets, directory entries."""
    n_killed: int
    """How many of its processes the kernel killed because of the limit."""


@dataclass(frozen=True)
class HostFigures(Record):
    """What the kernel says of processes beside their resident memory, now."""

    _nested: ClassVar[Nested] = {"group": lambda: GroupFigures}
    swapped_bytes: int
    """What is swapped out."""
    huge_bytes: int
    """The resident bytes in huge pages."""
    allocator: Literal["jemalloc", "tcmalloc", "mimalloc", None]
    """What serves `malloc` in place of the C library, by its library; null if none of these is loaded."""
    unused_page_bytes: int
    """Whole resident pages that `malloc` has and no block touches: what glibc's `malloc_trim(0)` would return."""
    n_arenas: int
    """The arenas that glibc's `malloc` made for threads, beside the main one."""
    arena_unused_bytes: int
    """The resident bytes of these arenas in which no block is."""
    one_arena_saves_bytes: int
    """What all arenas have unused, less what the one with the most has: what `MALLOC_ARENA_MAX=1` would save at most."""
    sample_bytes: int
    """The mean interval at which the heap was sampled; 0 if every block was recorded. Rows of a sampled heap are estimates and do not add up."""
    group: GroupFigures | None
    """What the group of the processes (cgroup) has; null without one."""


@dataclass(frozen=True, repr=False)
class Owners(Listing[OwnerRow]):
    """Who has the memory of a device, over all files: those of the processes of one run. The rows add up to what the device reports as used."""

    _rows: ClassVar[str] = "rows"
    _nested: ClassVar[Nested] = {"rows": lambda: OwnerRow, "outside": lambda: OwnerRow, "host": lambda: HostFigures}
    files: list[str]
    """The files with this device, as they were given."""
    device: int
    """The device, by its number in the first file."""
    name: str | None
    """Its name; null if it is not known."""
    uuid: str | None
    """What distinguishes it from all others; null if it is not known."""
    total_bytes: int | None
    """The size of the device; null if the device reported no usage."""
    used_now_bytes: int | None
    """What the last report has as used; null without a report."""
    used_peak_bytes: int | None
    """What the highest report has as used; null without a report."""
    now_us: int | None
    """The time of the last report; null without a report."""
    peak_us: int | None
    """The time of the highest report, or without one of the most recorded bytes; null if it is not dated."""
    is_of_blocks: bool
    """Whether the bytes are those of blocks, because the segments have no request of their own: of a process's heap."""
    n_rounded: int
    """Pinned blocks of PyTorch whose sizes are powers of two, when a process had the most bytes in them. PyTorch rounds requests up to such sizes."""
    rounded_bytes: int
    """The bytes of these blocks, of which up to half may be unused."""
    reserved_address_bytes: int
    """Addresses that the process with the most has reserved of the driver to map memory at, at the end. They are no memory."""
    reserved_address_peak_bytes: int
    """The most addresses that a process had reserved."""
    rows: list[OwnerRow]
    """The owners, the parts of the driver, and what is not of segments."""
    outside: list[OwnerRow]
    """Memory in no sum: managed memory, memory that another process exports, and memory that is mapped once more."""
    host: HostFigures | None
    """What else the kernel says; null unless the table is of the resident memory of processes."""


@dataclass(frozen=True)
class Point(Record):
    """A piece of the history."""

    event: int | None
    """The event with the highest figures in it."""
    time_us: int
    """When it was, since the Unix epoch; 0 if that is unknown."""
    allocated_bytes: int
    """Requested bytes that the program held."""
    active_bytes: int
    """These, and those of blocks that wait for a stream."""
    reserved_bytes: int
    """Bytes held from the device."""


@dataclass(frozen=True, repr=False)
class Timeline(Listing[Point]):
    """The memory of a device over its history."""

    _rows: ClassVar[str] = "points"
    _nested: ClassVar[Nested] = {"points": lambda: Point}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    points: list[Point]
    """The highest figures of each of `--width` pieces of the history."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class Block(Record):
    """A block in use."""

    address: int
    """The first byte."""
    bytes: int
    """The size after rounding."""
    requested_bytes: int
    """The requested size."""
    is_pending: bool
    """Whether it is freed and waits for a stream."""
    allocated_by_event: int | None
    """Its alloc; null from before the history."""
    names: list[str]
    """The names that the program gave it."""


@dataclass(frozen=True)
class Layout(Record):
    """A segment with its blocks."""

    _nested: ClassVar[Nested] = {"blocks": lambda: Block}
    address: int
    """The first byte."""
    bytes: int
    """The size."""
    stream: int
    """The stream."""
    is_expandable: bool
    """Whether it is a range of an expandable segment."""
    blocks: list[Block]
    """Its blocks in use, by address."""


@dataclass(frozen=True, repr=False)
class State(Listing[Layout]):
    """`at` without `--address`: the state of a device at a moment."""

    _rows: ClassVar[str] = "segments"
    _nested: ClassVar[Nested] = {"segments": lambda: Layout, "outside_segments": lambda: Block}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    event: int | None
    """The moment, after this event."""
    allocated_bytes: int
    """Requested bytes that the program holds."""
    active_bytes: int
    """Requested bytes in use, those of blocks that wait for a stream included."""
    reserved_bytes: int
    """Bytes held from the device."""
    n_blocks: int
    """Blocks in use."""
    segments: list[Layout]
    """The segments, by address."""
    outside_segments: list[Block]
    """The blocks that are in no segment of the file, by address."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class AddressOwner(Record):
    """A block that covered an address."""

    _nested: ClassVar[Nested] = {"site": lambda: Site}
    address: int
    """The first byte."""
    bytes: int
    """The size after rounding; of a block that is free at the end the least it can have been."""
    requested_bytes: int
    """The bytes that were requested."""
    stream: int
    """The stream."""
    pool_id: list[int] | None
    """`[0, 0]` is the default pool, `[n, 0]` of a graph capture, `[0, n]` of a user; null if it is not known."""
    allocated_by_event: int | None
    """Its `alloc`; null if it is from before the history."""
    free_requested_by_event: int | None
    """Its `free_requested`; null if not within the history."""
    freed_by_event: int | None
    """Its `free_completed`; null if it is in use at the end."""
    is_active: bool
    """Whether it is in use at the moment, its free requested or not."""
    is_pending: bool
    """Whether its free waits for a stream at the moment."""
    scope: str | None
    """The path of the scopes that it was allocated in; empty outside any, null from before the history."""
    names: list[str]
    """The names that the program gave it."""
    site: Site
    """The stack of its allocation."""


@dataclass(frozen=True)
class AddressMemory(Record):
    """An event that took memory from the device or gave it back."""

    event: int | None
    """The event; null of what was held before the history."""
    action: Literal["held", "segment_alloc", "segment_free", "segment_map", "segment_unmap"]
    """What happened; `held` is before the history."""
    address: int
    """The first byte."""
    bytes: int
    """The size."""
    stream: int
    """The stream."""


@dataclass(frozen=True)
class AddressHeld(Record):
    """A range that is held from the device."""

    address: int
    """The first byte."""
    bytes: int
    """The size."""
    stream: int
    """The stream."""
    is_expandable: bool
    """Whether it is a range of an expandable segment."""
    pool_id: list[int] | None
    """Its pool; null if it is not known."""


@dataclass(frozen=True, repr=False)
class AtAddress(Listing[AddressOwner]):
    """`at --address`."""

    _rows: ClassVar[str] = "owners"
    _nested: ClassVar[Nested] = {"owners": lambda: AddressOwner, "memory": lambda: AddressMemory, "held": lambda: AddressHeld}
    file: str
    """The file, as it was given."""
    device: int
    """The device."""
    address: int
    """The first address of the question."""
    end_address: int
    """The first address behind it."""
    event: int | None
    """The moment of the question, after this event."""
    n_owners: int
    """The blocks that covered a byte of it."""
    owners: list[AddressOwner]
    """The last of them, at most `-n`, in the order in which they begin."""
    memory: list[AddressMemory]
    """The memory of the device that covered a byte of it, in the order of the events."""
    held: list[AddressHeld]
    """The ranges that are held from the device at the moment, by address."""
    private_pools: list[list[int]]
    """The private pools that these are of: a captured graph that uses one writes there whenever it is replayed."""
    is_exact: bool
    """Whether the figures of every recorded moment are exact."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class ReplayFailure(Record):
    """A request that failed in a replay."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    request: int
    """The number of the request."""
    size_bytes: int
    """Its size."""
    stack: list[Frame]
    """Its stack, innermost first."""


@dataclass(frozen=True)
class ReplaySwitch(Record):
    """A change of settings in a replay."""

    entry: int
    """The first event under the new setting."""
    conf: str
    """The new setting."""


@dataclass(frozen=True)
class ReplayCouldHold(Record):
    """The bytes that the process of a recorded run could hold."""

    at_least_bytes: int
    """The least: what was reserved at the peak, or could have been when a request failed."""
    at_most_bytes: int
    """The most."""
    device_bytes: int | None
    """The device's size without what others hold of it, as a refusal by a limit shows it; null if nothing does."""
    is_limit: bool
    """Whether the device had room for a request that failed, so that the process had a limit."""


@dataclass(frozen=True)
class ReplayBaseline(Record):
    """The replay of the recorded setting, compared with the recorded run event by event."""

    recorded_peak_bytes: int
    """The most bytes that the recorded run reserved."""
    peak_bytes: int
    """The most bytes that the replay reserved."""
    recorded_end_bytes: int
    """The bytes that the recorded run had reserved at the end."""
    end_bytes: int
    """The bytes that the replay had reserved at the end."""
    deviation_bytes: int
    """The largest difference after an event: the reserved bytes of the replay less the recorded ones."""
    deviation_percent: float
    """The same in percent of the recorded peak."""
    deviation_entry: int | None
    """The event after which it was largest; null if there was none."""
    num_other_ooms: int
    """Requests that failed in one of the two and were served in the other."""
    num_compared: int
    """Requests, frees and emptied caches after which the two were compared."""


@dataclass(frozen=True, repr=False)
class Replay(Answer):
    """The history of a device under one setting."""

    _nested: ClassVar[Nested] = {"first_oom": lambda: ReplayFailure, "switch": lambda: ReplaySwitch, "could_hold": lambda: ReplayCouldHold, "baseline": lambda: ReplayBaseline}
    file: str
    """The file, as it was given."""
    conf: str
    """The setting."""
    changes: list[str]
    """How the program is changed, in words; empty if it is not."""
    device: int
    """The device."""
    reserved_peak_bytes: int
    """The most bytes reserved."""
    allocated_peak_bytes: int
    """The most bytes of blocks, after rounding."""
    requests: int
    """Requests that were replayed."""
    num_ooms: int
    """Requests that failed."""
    num_alloc_retries: int
    """Requests for which the cache was released."""
    num_device_alloc: int
    """Allocations from the device."""
    num_device_free: int
    """Frees to the device."""
    first_oom: ReplayFailure | None
    """The first request that failed; null if none did."""
    reserved_peak_bytes_rising: int
    """The peak if the device gives out rising addresses."""
    reserved_peak_bytes_falling: int
    """The peak if it gives out falling addresses."""
    has_recorded_addresses: bool
    """Whether the figures are for the addresses of the recorded run."""
    waste_at_peak_bytes: int
    """Reserved bytes in no block, at the peak of reserved memory."""
    pre_existing_blocks: int
    """Blocks from before the history."""
    pre_existing_bytes: int
    """Their bytes."""
    pre_existing_blocks_refused: int
    """Those for which there was no room."""
    recorded_conf: str
    """The setting of the recorded run."""
    recorded_reserved_peak_bytes: int
    """Its peak."""
    recorded_num_ooms: int
    """Its requests that failed."""
    is_least: bool
    """Whether no other of the tried settings is better."""
    place: int
    """Its place among the tried settings, the best first; settings with the same figures share one."""
    switch: ReplaySwitch | None
    """The change of settings of `--from`; null without it."""
    limit_bytes: int | None
    """The limit of the runs: that of `--limit`, or what the recorded run could hold; null without one."""
    could_hold: ReplayCouldHold | None
    """What the recorded run could hold; null if it was never refused memory."""
    num_empty_cache: int
    """How often the program emptied the cache."""
    baseline: ReplayBaseline
    """The replay of the recorded setting beside the recorded run."""
    confidence: Literal["sure", "high", "fair", "low"]
    """How well the baseline repeats the recorded run: exactly, within 1 % of its peak, within 5 %, or less."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class FitPeakPart(Record):
    """What is requested and not yet free at a peak, of one kind."""

    made: Literal["gradients", "optimizer states", "activations of a forward", "weights", "a captured graph", None]
    """What it is, by the calls that asked for it; null where they do not tell."""
    bytes: int
    """Its bytes."""
    constant_bytes: int
    """Those of requests with the same bytes in every run."""


@dataclass(frozen=True)
class FitPrediction(Record):
    """The peaks of a run at one size."""

    _nested: ClassVar[Nested] = {"peak_parts": lambda: FitPeakPart, "failure": lambda: ReplayFailure}
    size: list[int]
    """The numbers of the size."""
    requested_peak_bytes: int
    """The most bytes that were requested and not yet free."""
    allocated_peak_bytes: int
    """The most bytes of blocks, after rounding."""
    reserved_peak_bytes: int
    """The most bytes reserved."""
    reserved_peak_at_least_bytes: int
    """The least that the laws of the requests and the order of frees allow."""
    reserved_peak_at_most_bytes: int
    """The most that they allow."""
    confidence: Literal["sure", "high", "fair", "low"]
    """How far the guess can be trusted."""
    nearest: list[int]
    """The size of the recorded run whose requests these are."""
    peak_parts: list[FitPeakPart]
    """What the peak of the requested bytes is made of, the most bytes first."""
    alone_percent: float
    """The share of the bytes that one run asked for and another did not."""
    failure: ReplayFailure | None
    """The request that fails under the limit; null if none does."""


@dataclass(frozen=True)
class FitRecorded(Record):
    """A recorded run, under the setting."""

    size: list[int]
    """The numbers of its size."""
    requested_peak_bytes: int
    """The most bytes that were requested and not yet free."""
    allocated_peak_bytes: int
    """The most bytes of blocks, after rounding."""
    reserved_peak_bytes: int
    """The most bytes reserved."""


@dataclass(frozen=True)
class FitCheck(Record):
    """A recorded run, predicted from the others."""

    size: list[int]
    """The numbers of its size."""
    reserved_peak_bytes: int
    """The most bytes reserved, as the others predict it."""
    recorded_reserved_peak_bytes: int
    """The most bytes that it reserved."""


@dataclass(frozen=True, repr=False)
class Fit(Listing[FitPrediction]):
    """What runs of some sizes say of others."""

    _rows: ClassVar[str] = "predictions"
    _nested: ClassVar[Nested] = {"predictions": lambda: FitPrediction, "recorded": lambda: FitRecorded, "checks": lambda: FitCheck}
    files: list[str]
    """The files, as they were given."""
    names: list[str]
    """What the numbers of a size are called."""
    device: int
    """The device."""
    conf: str
    """The setting."""
    changes: list[str]
    """How the program is changed, in words; empty if it is not."""
    limit_bytes: int | None
    """The limit of `--limit`; null without one."""
    beside_bytes: int | None
    """The most that a run of `memreel record` had on the device beside what PyTorch reserved; null of other files."""
    largest: list[int] | None
    """The numbers of the largest size that fits; null without a limit, or if none fits."""
    best_conf: str | None
    """The setting under which a larger size fits; null without `--sweep`, or if there is none."""
    best_largest: list[int] | None
    """The numbers of that size."""
    predictions: list[FitPrediction]
    """The largest size that fits and the next one, and the sizes of `--at`."""
    recorded: list[FitRecorded]
    """The recorded runs in which no request failed."""
    checks: list[FitCheck]
    """Each recorded run, predicted from the others; empty if there are only two."""


@dataclass(frozen=True)
class SiteChange(Record):
    """A site that holds more or less than before."""

    _nested: ClassVar[Nested] = {"stack": lambda: Frame}
    bytes: int | None
    """The growth."""
    blocks: int
    """The growth in blocks."""
    before_bytes: int
    """Bytes before."""
    after_bytes: int
    """Bytes after."""
    stack: list[Frame] | None = None
    """All frames of the stack, innermost first; null if the blocks have none. Absent in a group of something else."""
    size_bytes: int | None = None
    """Only of blocks without a stack, which are grouped by the size that was requested."""
    owner: str | None = None
    """The owner (`--by owner`), whose bytes are held from the device."""


@dataclass(frozen=True, repr=False)
class Diff(Listing[SiteChange]):
    """How two snapshots differ on a device."""

    _rows: ClassVar[str] = "changes"
    _nested: ClassVar[Nested] = {"changes": lambda: SiteChange}
    before: str
    """The earlier file."""
    after: str
    """The later file."""
    device: int
    """The device."""
    after_device: int
    """The device of the later file; it differs from `device` only if each file has one device."""
    before_event: int | None
    """The moment in the earlier file."""
    after_event: int | None
    """The moment in the later file."""
    before_bytes: int
    """Bytes in use then."""
    after_bytes: int
    """Bytes in use then."""
    before_reserved_bytes: int
    """Bytes reserved then."""
    after_reserved_bytes: int
    """Bytes reserved then."""
    before_peak_bytes: int
    """The most bytes in use in the earlier history."""
    after_peak_bytes: int
    """The most bytes in use in the later history."""
    changes: list[SiteChange]
    """Every site that differs: the largest growth first, then the largest loss."""
    warnings: list[str]
    """What limits the figures, one sentence each; empty if nothing does."""


@dataclass(frozen=True)
class Check(Record):
    """A figure and its limit."""

    what: str
    """The figure: `peak`, `live`, `reserved` or `fragmentation`, or `owner` with a name."""
    actual: float
    """Its value."""
    most: float
    """The limit."""
    is_baseline: bool
    """Whether the limit comes from the baseline."""
    is_passed: bool
    """Whether it is kept."""


@dataclass(frozen=True, repr=False)
class Gate(Judged[Check]):
    """The checks of a device."""

    _rows: ClassVar[str] = "checks"
    _nested: ClassVar[Nested] = {"checks": lambda: Check}
    file: str
    """The file, as it was given."""
    device: int | None
    """The device; null for what is about a run of `memreel record`, which has no checks."""
    is_passed: bool
    """Whether every check passed and, with `--strict`, the history is whole and neither the program nor a request failed."""
    checks: list[Check]
    """One for each limit."""
    warnings: list[str]
    """Why figures may be too low, why the baseline cannot be compared, or what of a run was not recorded."""


@dataclass(frozen=True)
class Free(Record):
    """Free bytes."""

    external: int | None
    """In blocks that the program does not hold."""
    internal: int | None
    """In blocks that it holds, beyond the requested ones."""


@dataclass(frozen=True)
class SegmentMap(Record):
    """A segment, drawn."""

    _nested: ClassVar[Nested] = {"free_bytes": lambda: Free}
    address: int
    """The first byte."""
    bytes: int
    """The size."""
    stream: int
    """The stream."""
    free_bytes: Free
    """Its free bytes."""
    pages: str | None
    """One letter for each page (`memreel stats` has the legend); null if the segment is not drawn."""


@dataclass(frozen=True, repr=False)
class Stats(Listing[SegmentMap]):
    """How the segments are filled, as PyTorch's tool counts it."""

    _rows: ClassVar[str] = "segments"
    _nested: ClassVar[Nested] = {"free_bytes": lambda: Free, "segments": lambda: SegmentMap}
    file: str
    """The file, as it was given."""
    device: int | None
    """The device; null for all."""
    n_segments: int
    """The segments, the small ones included."""
    reserved_bytes: int | None
    """Bytes held from the device."""
    allocated_bytes: int | None
    """Requested bytes that the program holds."""
    free_bytes: Free
    """The free bytes."""
    page_bytes: int
    """The size of a page."""
    segments: list[SegmentMap]
    """Segments of at least a page, by size."""


@dataclass(frozen=True, repr=False)
class Finding(Answer):
    """A broken rule."""

    file: str
    """The file, as it was given."""
    rule: int
    """The number of the rule (schema/snapshot.md)."""
    severity: Literal["E", "W", "P"]
    """E: a reader throws or shows wrong figures. W: a misleading picture. P: differs from PyTorch, without harm."""
    place: str
    """Where."""
    what: str
    """What."""


@dataclass(frozen=True)
class Repair(Record):
    """A defect of the bytes."""

    what: str
    """What."""
    count: int
    """How often."""


@dataclass(frozen=True)
class ChangeMade(Record):
    """A kind of change."""

    place: str
    """Where; empty for the whole file."""
    what: str
    """What."""
    count: int
    """How often."""


@dataclass(frozen=True, repr=False)
class Fixed(Listing[ChangeMade]):
    """The repairs of a file."""

    _rows: ClassVar[str] = "changes"
    _nested: ClassVar[Nested] = {"written_anew": lambda: Repair, "changes": lambda: ChangeMade}
    file: str
    """The file, as it was given."""
    written_anew: list[Repair]
    """Defects of the bytes, which end with writing the file again."""
    changes: list[ChangeMade]
    """What was added, dropped, moved or renamed."""
    left: list[str]
    """Findings that are left, as `validate` prints them."""
    written: str | None
    """The new file; null without `-o`."""


@dataclass(frozen=True, repr=False)
class Slimmed(Answer):
    """What is left of a file."""

    file: str
    """The file, as it was given."""
    n_events: list[int]
    """Events before and after."""
    n_frames: list[int]
    """Frames before and after."""
    written: str | None
    """The new file; null without `-o`."""


@dataclass(frozen=True)
class Origin(Record):
    """Where a device of a joined file comes from."""

    device: int
    """Its number now."""
    file: str
    """Its file."""
    number_in_file: int
    """Its number there."""
    n_events: int
    """Its events."""


@dataclass(frozen=True)
class DifferingSetting(Record):
    """A setting that differs."""

    key: str
    """Its key."""
    values: list[Any]
    """Its value in each file; null where it is missing."""


@dataclass(frozen=True, repr=False)
class Merged(Listing[Origin]):
    """The joined file."""

    _rows: ClassVar[str] = "origins"
    _nested: ClassVar[Nested] = {"origins": lambda: Origin, "differing_settings": lambda: DifferingSetting}
    files: int
    """Files that were joined."""
    devices: list[int]
    """Its devices."""
    n_events: int
    """Its events."""
    written: str | None
    """The new file; null without `-o`."""
    origins: list[Origin]
    """Where each device comes from."""
    differing_settings: list[DifferingSetting]
    """Settings that differ between the files."""


@dataclass(frozen=True)
class RankHolder(Record):
    """Who holds memory at the peak."""

    name: str
    """An owner, or the innermost calls of a stack."""
    bytes: int
    """Its bytes."""


@dataclass(frozen=True)
class RankOom(Record):
    """A request that failed."""

    event: int
    """Its event."""
    n_ooms: int
    """All requests that failed."""
    requested_bytes: int
    """The request."""
    time_us: int
    """Its time; 0 if it is not known."""
    scope: str
    """Its scope; empty outside of any."""
    step: str
    """Its outermost scope, as in `in step#3` or `after step#3`; empty before the first."""
    site: str
    """Its innermost calls; empty if they were not recorded."""


@dataclass(frozen=True)
class RankStep(Record):
    """One of the outermost scopes."""

    name: str
    """Its name, with its number if several have one name."""
    event: int | None
    """The event before it."""
    begin_us: int
    """The time of its first event."""
    peak_bytes: int
    """The most memory in use."""


@dataclass(frozen=True)
class RankWhy(Record):
    """A difference from the median rank."""

    kind: Literal["out_of_memory", "peak", "reserved", "waste", "end", "step", "clock", "site", "owner"]
    """Its kind."""
    begin: str | None
    """The step in which it begins, or the time since the first event, as in `12.583 s`; null for a figure of the whole history."""
    text: str
    """It in words."""
    bytes: int | None
    """The figure of the rank; null for a failure."""
    usual_bytes: int | None
    """That of the median rank; null for a failure."""


@dataclass(frozen=True)
class Rank(Record):
    """One device of one rank."""

    _nested: ClassVar[Nested] = {"peak": lambda: Totals, "owners": lambda: RankHolder, "sites": lambda: RankHolder, "oom": lambda: RankOom, "steps": lambda: RankStep, "whys": lambda: RankWhy, "first_difference": lambda: RankWhy}
    file: str
    """The file, as it was given or found in a folder."""
    rank: int | None
    """The number behind `rank` in the name of the file or its folder; null without one."""
    device: int
    """The device."""
    n_events: int
    """Its events."""
    first_us: int
    """The time of the first event; 0 if it is not known."""
    last_us: int
    """The time of the last event; 0 if it is not known."""
    peak: Totals
    """The memory at the peak."""
    peak_us: int
    """The time of the peak; 0 if it is not known."""
    peak_scope: str
    """The scope of the peak's event; empty outside of any."""
    reserved_bytes: int
    """The most reserved memory."""
    waste_bytes: int
    """Reserved memory in no block at the peak."""
    end_bytes: int
    """The memory in use at the end."""
    owners: list[RankHolder]
    """Who has the reserved memory at the peak, the largest first."""
    sites: list[RankHolder]
    """The sites of the blocks at the peak, the largest first."""
    oom: RankOom | None
    """The first request that failed."""
    steps: list[RankStep]
    """The first thousand outermost scopes."""
    n_steps: int
    """All outermost scopes."""
    is_outlier: bool
    """Whether the rank differs from the median rank."""
    whys: list[RankWhy]
    """How it differs."""
    first_difference: RankWhy | None
    """The first step, or stretch of time, that differs."""
    warnings: list[str]
    """Why the figures may be too low."""


@dataclass(frozen=True)
class UnreadRank(Record):
    """A file that cannot be read."""

    file: str
    """The file, as it was given or found in a folder."""
    rank: int | None
    """The number behind `rank` in the file's name; null without one."""
    error: str
    """Why."""


@dataclass(frozen=True)
class RankPeak(Record):
    """The peak of a rank in a step."""

    file: str
    """The file, as it was given or found in a folder."""
    rank: int | None
    """The number behind `rank` in the file's name; null without one."""
    device: int
    """The device."""
    peak_bytes: int
    """The most memory in use."""


@dataclass(frozen=True)
class Step(Record):
    """A step of all ranks, with `--by step`."""

    _nested: ClassVar[Nested] = {"ranks": lambda: RankPeak}
    step: str
    """The step."""
    median_bytes: int
    """The median of the peaks."""
    ranks: list[RankPeak]
    """The peaks, the lowest first."""
