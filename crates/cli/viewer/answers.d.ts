// The types of what the page asks and of the answers (crates/cli/src/serve/view). They are for readers and for tsc (dev/scripts/pages); the program
// does not contain this file. Moments are numbers of events that have happened, addresses are texts such as "0x7f12000000".

/** Figures of a moment. */
interface Totals {
  moment: number;
  /** The event that has just happened; null at the start. */
  event: number | null;
  time_us: number | null;
  action: string | null;
  allocated_bytes: number;
  active_bytes: number;
  rounded_bytes: number;
  reserved_bytes: number;
  n_blocks: number;
  /** In a page that is one file: figures of another moment near it. */
  is_approximate?: boolean;
}

/** Figures of the moments from `from` on. */
interface TotalsBetween {
  from: number;
  allocated_bytes: number[];
  active_bytes: number[];
  reserved_bytes: number[];
}

interface Marker {
  moment: number;
  kind: "peak" | "oom" | "snapshot";
  text: string;
}

interface Scope {
  name: string;
  path: string;
  from: number;
  until: number;
  depth: number;
}

/** A device of a file that is read, as in the answer of `files`. */
interface Device {
  device: number;
  n_events: number;
  first_us: number | null;
  last_us: number | null;
  peak: Totals;
  top_bytes: number;
  limit_bytes: number | null;
  n_lives: number;
  markers: Marker[];
  scopes: Scope[];
  n_scopes: number;
  streams: number[];
  pools: string[];
  owners: string[];
  /** Whether a block has a stack, and whether there are segments at the end. */
  has_stacks: boolean;
  has_segments: boolean;
  /** Whether it is host memory: a heap, or pinned memory. */
  is_host: boolean;
  /** What limits the figures, and why there is no history. */
  warnings: string[];
  is_exact: boolean;
}

/** A file: `devices` if it is ready, `read` (0 to 1) and `coarse` while it is read, `error` if that failed. */
interface Recording {
  name: string;
  state: "ready" | "reading" | "failed";
  devices?: Device[];
  read?: number;
  coarse?: {n_events: number, points: [part: number, active: number, reserved: number][]};
  error?: string;
}

interface Files {
  files: Recording[];
  version: string;
}

interface Frame {
  name: string;
  filename: string | null;
  line: number;
  is_shown?: boolean;
}

interface Block {
  life: number;
  address: string;
  use: number;
  requested_bytes: number;
  bytes: number;
  from: number;
  /** Null if it did not happen. */
  requested: number | null;
  until: number | null;
  is_from_before: boolean;
  from_us: number | null;
  until_us: number | null;
  stream: number;
  pool: string;
  owner: string;
  scope: string;
  names: string[];
  where: string;
  n_frames: number;
  frames: Frame[];
}

/** A row of `list`. */
interface Row {
  life: number;
  address: string;
  bytes: number;
  requested_bytes: number;
  from: number;
  until: number | null;
  stream: number;
  pool: string;
  scope: string;
  where: string;
}

interface Rows {
  n: number;
  rows: Row[];
  /** In a page that is one file: the number of rows that there are to choose from. */
  n_kept?: number;
}

interface Group {
  group: number;
  name: string;
  bytes: number;
}

type SegmentBlock = [life: number, offset: number, bytes: number, requested_bytes: number, is_pending: 0 | 1, group: number];

interface Segment {
  address: string;
  bytes: number;
  stream: number;
  pool: string;
  kind: string | null;
  is_expandable: boolean;
  /** Of an expandable segment: where the pages begin that were ever mapped, and their bytes. */
  range: [address: string, bytes: number] | null;
  largest_gap_bytes: number;
  used_bytes: number;
  blocks: SegmentBlock[];
}

interface AllocatorState {
  moment: number;
  totals: Totals;
  n_left_out: number;
  left_out_bytes: number;
  segments: Segment[];
}

interface Icicle {
  bytes: number;
  n_blocks: number;
  n_left_out: number;
  /** `folds` is the first of the calls that the page put together. */
  branches: (Frame & {depth: number, bytes: number, n_blocks: number, folds?: number})[];
}

interface Change {
  bytes_before: number;
  bytes_after: number;
  n_before: number;
  n_after: number;
  where: string;
  frames: string[];
}

interface Difference {
  before: Totals;
  after: Totals;
  n_changes: number;
  changes: Change[];
}

interface Replayed {
  conf: string;
  points: Point[];
  peak_reserved_bytes: number;
  recorded_peak_reserved_bytes: number;
  warnings: string[];
  error?: string;
}

/** A place in the page: a view at a moment. */
interface Place {
  view: string;
  moment: number;
}

/** A part of the summary, as `memreel FILE` prints it. */
interface SummaryPart {
  topic: "device" | "peak" | "end" | "reserved" | "warning" | "failure" | "cause" | "close_call" | "kept" | "quiet" | "growth" | "sites" | "pools";
  lines: string[];
  place: Place | null;
}

/** The summary of a device, or the lines and the status of a command. */
interface Answer {
  parts?: SummaryPart[];
  /** The commands that show more, each with what it shows. */
  next?: {command: string, what: string}[];
  lines?: string[];
  status?: number;
}

type Question = "summary" | "oom" | "leaks" | "settings" | "fit";

/** A point of a curve. */
type Point = [moment: number, bytes: number];

// --- Questions.

type Axis = "events" | "time";
type Colouring = "stack" | "function" | "owner" | "pool" | "stream" | "scope" | "size" | "age";
type Interval = [from: number, to: number];

/** Filters that are on. */
interface Filters {
  stream?: string;
  pool?: string;
  owner?: string;
  scope?: string;
  least_bytes?: string;
  most_bytes?: string;
  action?: string;
}

interface OfDevice {
  file?: number;
  device?: number;
}

interface Filtered extends OfDevice, Filters {
  search?: string;
}

interface ListParams extends Filtered {
  sort?: string;
  descending?: number;
  offset?: number;
  count?: number;
}

interface PictureParams extends Filtered {
  axis: Axis;
  level: number;
  index: number;
  rise: number;
  shelf: number;
  rows: number;
  colour: Colouring;
}

interface Options {
  signal?: AbortSignal;
}

type Ask<Params, Answer> = (params: Params, options?: Options) => Promise<Answer>;

/** What answers: the server (source.js), or the page itself if it is one file (offline.js). */
interface Source {
  files(): Promise<Files>;
  picture: Ask<PictureParams, ArrayBuffer>;
  groups: Ask<Filtered & {colour: Colouring}, {n_groups: number, groups: Group[]}>;
  block: Ask<OfDevice & ({life: number} | {address: string, moment: number}), Block>;
  totals: Ask<OfDevice & {moment: number}, Totals>;
  totals_between: Ask<OfDevice & {from: number, count: number}, TotalsBetween>;
  moment: Ask<OfDevice & {time_us: number}, {moment: number}>;
  next: Ask<OfDevice & {moment: number, kind: string, direction: number}, {moment: number | null}>;
  state: Ask<OfDevice & {moment: number, colour?: Colouring}, AllocatorState>;
  icicle: Ask<Filtered & {what: State["what"], moment?: number, from?: number, to?: number}, Icicle>;
  list: Ask<ListParams, Rows>;
  diff: Ask<OfDevice & {other: number, other_device?: number, moment: number | null, other_moment: number | null}, Difference>;
  whatif: Ask<OfDevice & {conf: string}, Replayed>;
  curve: Ask<OfDevice & {points: number}, {points: [moment: number, active: number, reserved: number][]}>;
  /** Without a question, the summary. */
  answer: Ask<OfDevice & {question?: Exclude<Question, "summary">, sizes?: string, limit?: string, at?: string}, Answer>;
  end(): Promise<unknown>;
  is_offline?: boolean;
  note?(): Promise<string>;
  /** Runs a command line on the files; only in a page that has memreel in it. */
  command?(words: string[], options?: Options): Promise<Printed>;
  /** Opens files in a page that has memreel in it: returns the first screen. */
  web?: {connect(app: App, poll: () => void): HTMLElement};
}

// --- A page that has memreel in it.

/** What a command line printed and wrote. */
interface Printed {
  status: number;
  stdout: string;
  stderr: string;
  written: {name: string, bytes: Uint8Array<ArrayBuffer>}[];
}

/** A file that was dropped, under its own name. */
interface Dropped {
  name: string;
  file: File;
  /** Why it is not read. */
  failed?: string;
}

/** The browser's, in workers. */
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}

// --- A page that is one file.

/** What the file has of a device (crates/cli/src/serve/view/pack.rs). */
interface Kept {
  /** The largest blocks, with their group in each colour. */
  blocks: Record<number, Block & {groups: Record<Colouring, number>}>;
  /** The moments whose states there are. */
  moments: number[];
  totals: Totals[];
  /** Where the keys go; a kind has all of its moments up to `until`. */
  marks: Record<string, {moments: number[], until: number}>;
}
