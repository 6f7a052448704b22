// The types of the state, and of what modules hand to each other. They are for readers and for tsc (dev/scripts/pages), as answers.d.ts is.

// --- The state and the app.

/** The state of the page (address.js has the defaults). */
type State = {
  file: number;
  device: number;
  view: string;
  axis: Axis;
  /** The part of the axis that is shown; null is all. */
  range: Interval | null;
  /** The bytes that are shown; null is all. */
  vertical: Interval | null;
  /** The moments that were marked. */
  interval: Interval | null;
  cursor: number | null;
  /** The pinned block. */
  life: number | null;
  colour: Colouring;
  filters: Filters;
  search: string;
  other: number | null;
  other_moment: number | null;
  what: "live" | "allocated" | "freed";
  sort: string;
  descending: number;
  conf: string;
  /** What the view of answers shows. */
  question: Question;
}

/** The keys of the state that changed, and "files", "curves", "theme" and "totals". */
type Changed = Set<string>;

interface App {
  state: State;
  source: Source;
  files: Files | null;
  curves: Map<string, Point[]>;
  /** Times of moments that are known. */
  times: Map<number, number>;
  /** The totals at the cursor, as soon as they are known. */
  totals: Totals | null;
  /** What a page that is one file has. */
  note: string | null;
  set(patch: Partial<State>): void;
  on(listener: (changed: Changed) => void): () => void;
  notify(changed: Changed): void;
  file(): Recording | null;
  device(): Device | null;
  all_files(): Recording[];
  shown(): Device;
  query(): {file: number, device: number};
  filtered(): Filtered;
  moment(): number;
  pin(life: number | null): void;
  goto(moment: number): void;
  select(address: string, moment?: number): Promise<Block>;
  curve(name: string, points: Point[] | null): void;
  announce(text: string): void;
  /** The view that is open. */
  view(): View | null;
  toggle_theme(): void;
  /** Zooms to the life of a block; the timeline adds it. */
  show_life(block: Block): void;
  /** Returns the name of a group; the legend adds it. */
  group_name?(group: number): string;
}

/** Keys, what they do, and the action. */
type Key = [keys: string[], text: string, act: (key: string) => unknown];

/** A view, or a panel at the side. */
interface View {
  element: HTMLElement;
  show(): unknown;
  hide(): void;
  update(changed: Changed): void;
  keys?: Key[];
  /** For copies. */
  text?(): string;
  canvas?(): HTMLCanvasElement;
  svg?(): string;
  stats?(): {frames_ms: number[], n_pictures: number};
}

// --- Pictures.

/** A part of the history and of the bytes: at each level half as wide, at each rise half as high. */
interface Extent {
  from: number;
  to: number;
  low: number;
  high: number;
}

interface Cut extends Extent {
  key: string;
  level: number;
  index: number;
  rise: number;
  shelf: number;
  /** Beside what is seen. */
  is_ahead?: boolean;
}

/** What is needed to paint a picture. */
interface Raster {
  n_columns: number;
  n_rows: number;
  n_lives: number;
  lives: Uint32Array;
  groups: Uint32Array;
  matches: Uint8Array;
  /** Cells, a column after the other: 0 (nothing), 1 (the rest), or the index in `lives` plus two. */
  raster: Uint16Array<ArrayBuffer>;
}

interface Picture extends Raster, Extent {
  n_moments: number;
  is_complete: boolean;
  moments: Uint32Array;
  allocated_min: Float32Array;
  allocated_max: Float32Array;
  active_min: Float32Array;
  active_max: Float32Array;
  reserved_min: Float32Array;
  reserved_max: Float32Array;
  sizes: Float64Array;
  bytes: number;
  outlines: Map<number, Outline | null>;
}

/** A picture that is painted, in its window. */
interface Tile extends Picture {
  key: string;
  window: Cut;
  bitmap: ImageBitmap;
  /** It was asked for with other colours or filters. */
  is_stale: boolean;
}

/** Where a life is: rows for each column from `first` on, -1 where it is not. */
interface Outline {
  first: number;
  lows: number[];
  highs: number[];
}

/** What is in a place of a picture: a life, the sum of a group's small blocks, or neither. */
type Cell = {value: number, life: number, bytes: number, group: number, sum?: undefined} | {value: number, life: null, sum?: number};

interface Look {
  kind: Colouring;
  rest: number[];
  is_searched: boolean;
}

// --- What is painted on.

/** The part of a canvas that the views use, which a drawing (drawing.js) has too. */
type Pen = Pick<CanvasRenderingContext2D,
  "fillRect" | "strokeRect" | "clearRect" | "beginPath" | "moveTo" | "lineTo" | "closePath" | "rect" | "setLineDash" | "measureText" | "fillText"
  | "save" | "restore" | "fillStyle" | "strokeStyle" | "lineWidth" | "font" | "globalAlpha" | "textAlign" | "textBaseline">
  & {stroke(): void, fill(): void, clip(): void};
type Drawing = Pen & {text(): string};

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** A plot of a chart. */
interface PlotBox {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Size {
  width: number;
  height: number;
}

/** A place in an element, in pixels. */
interface Spot {
  left: number;
  top: number;
}

type Inks = Record<"font" | "ground" | "surface" | "raised" | "text" | "quiet" | "edge" | "strong" | "grid" | "rest" | "chosen" | "accent"
  | "allocated" | "active" | "reserved" | "limit" | "cursor" | "whatif" | "marker", string>;

/** What a frame of the timeline needs. */
interface Painting extends Geometry {
  context: CanvasRenderingContext2D;
  inks: Inks;
}

type Geometry = ReturnType<Lens["geometry"]>;
type Lens = ReturnType<typeof import("./lens.js").create>;
type Tiles = ReturnType<typeof import("./tiles.js").create>;
type Surface = ReturnType<typeof import("./surface.js").create>;

interface Curve {
  name: string;
  /** Tokens of style.css. */
  ink: string;
  fill?: string;
  points: Point[];
  is_dashed?: boolean;
}

interface Chart {
  curves: Curve[];
  most: number;
  until: number;
  unit?: string;
  is_bare?: boolean;
}

// --- Trees and rows that modules make of answers.

interface Branch extends Frame {
  depth: number;
  bytes: number;
  n_blocks: number;
  index: number;
  parent: Branch | null;
  /** The bytes of the branches to its left. */
  from: number;
  /** The index after its last descendant. */
  end: number;
  is_match: boolean;
  is_below: boolean;
  /** Of calls that are folded, the first one. */
  folds?: number;
}

/** A segment in its row. */
interface Part extends Segment {
  at: bigint;
  offset: number;
}

interface PoolRow {
  kind: "pool";
  pool: string;
  text: string;
}

interface SegmentRow {
  kind: "segment";
  pool: string;
  stream: number;
  is_expandable: boolean;
  range: [address: string, bytes: number] | null;
  parts: Part[];
  start: bigint;
  bytes: number;
  mapped: number;
  unmapped: number;
  used: number;
  n_blocks: number;
  is_pinned: boolean;
  text: string;
  detail: string;
}

/** The rows of segments and how they are shown. */
interface Segments {
  rows: (PoolRow | SegmentRow)[];
  top: number;
  is_fitted: boolean;
  colour: Colouring;
  life: number | null;
  chosen: number | null;
}

// --- The page that follows programs.

/** A site with its calls in one line, as `memreel watch` shows them. */
interface LiveSite {
  bytes: number;
  text: string;
}

/** A device of a process at the last look, with its curve. */
interface LiveDevice {
  file: string;
  process: number;
  rank: string | null;
  is_running: boolean;
  device: number;
  name: string;
  used_bytes: number | null;
  limit_bytes: number | null;
  live_bytes: number;
  live_peak_bytes: number;
  reserved_bytes: number;
  n_live: number;
  allocations_per_s: number;
  owners: {owner: string, bytes: number}[];
  holders: LiveSite[];
  grown_in_a_minute: LiveSite[];
  grown_since_begin: LiveSite[];
  oom: {n_ooms: number, why: string | null} | null;
  problems: string[];
  /** The time in microseconds since the Unix epoch, and the most bytes until the next point. */
  curve: [us: number, bytes: number][];
}

interface LiveAnswer {
  now_us: number;
  devices: LiveDevice[];
}

// --- The browser.

interface Performance {
  memory?: {usedJSHeapSize: number};
}

interface Window {
  memreel: unknown;
}
