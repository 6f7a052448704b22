// The branches of an icicle: a tree made of the server's list in pre-order, with a place for each branch.

/**
 * Returns an array of branches {index, parent, depth, name, filename, line, bytes, n_blocks, from, end}: from is the sum of bytes to its left.
 * @param {Icicle} answer @returns {Branch[]}
 */
export function tree_of(answer) {
  /** @type {Branch[]} */
  const open = [];
  /** @type {number[]} */
  const used = [];
  let at_root = 0;
  const all = answer.branches.map((of, index) => {
    open.length = of.depth;
    used.length = of.depth + 1;
    const parent = of.depth ? open[of.depth - 1] : null;
    const from = parent ? parent.from + (used[of.depth] ?? 0) : at_root;
    if (parent) used[of.depth] = (used[of.depth] ?? 0) + of.bytes;
    else at_root += of.bytes;
    used[of.depth + 1] = 0;
    /** @type {Branch} */
    const branch = {...of, index, parent, from, end: index + 1, is_match: false, is_below: false};
    open.push(branch);
    return branch;
  });
  // The end of a branch is the index after its last descendant.
  for (let index = all.length - 1; index >= 0; index -= 1) {
    const {parent, end} = all[index];
    if (parent) parent.end = Math.max(parent.end, end);
  }
  return all;
}

// A chain of calls that share all of their bytes is folded if it is longer, as in `memreel top --tree`.
const CALLS = 4;

/**
 * Returns an answer in which of each long chain of calls the first and the last are left, with "7 more calls" between them. Chains
 * whose first branch has its index in `open` stay whole.
 * @param {Icicle} answer @param {Set<number>} open @returns {Icicle}
 */
export function folded(answer, open) {
  const {branches} = answer;
  /** @type {Icicle["branches"]} */
  const kept = [];
  // The depth that a branch has now, by the depth that it had.
  /** @type {number[]} */
  const depths = [];
  for (let first = 0; first < branches.length;) {
    const {depth, bytes, n_blocks} = branches[first];
    const at = depth ? depths[depth - 1] + 1 : 0;
    let last = first;
    while (branches[last + 1]?.depth === branches[last].depth + 1 && branches[last + 1].bytes === bytes && branches[last + 1].n_blocks === n_blocks) last += 1;
    const n = last - first + 1;
    const is_whole = n <= CALLS || open.has(first);
    for (let nth = 0; nth < n; nth += 1) {
      const now = at + (is_whole ? nth : Math.min(nth, 2));
      depths[depth + nth] = now;
      if (is_whole || nth === 0 || nth === n - 1) kept.push({...branches[first + nth], depth: now});
      else if (nth === 1) kept.push({name: `${n - 2} more calls`, filename: null, line: 0, depth: now, bytes, n_blocks, folds: first});
    }
    first = last + 1;
  }
  return {...answer, branches: kept};
}

/**
 * Marks branches whose frame has a text, and those below; returns the bytes in the outermost matches.
 * @param {Branch[]} branches @param {string} search
 */
export function mark(branches, search) {
  const text = search.toLowerCase();
  let sum = 0;
  for (const branch of branches) {
    branch.is_match = Boolean(text) && `${branch.filename ?? ""}:${branch.line ?? ""} ${branch.name ?? ""}`.toLowerCase().includes(text);
    branch.is_below = branch.parent !== null && (branch.parent.is_match || branch.parent.is_below);
    if (branch.is_match && !branch.is_below) sum += branch.bytes;
  }
  return sum;
}

/**
 * Returns the path of a branch, outermost first.
 * @param {Branch} branch
 */
export function path_of(branch) {
  const path = [];
  /** @type {Branch | null} */
  let of = branch;
  for (; of; of = of.parent) path.unshift(of);
  return path;
}

/**
 * Returns the branch that a key leads to: out to the parent, in to the largest child, or to a sibling.
 * @param {Branch[]} branches @param {Branch | null} branch @param {string} key
 */
export function neighbour(branches, branch, key) {
  if (!branch) return branches[0] ?? null;
  if (key === "ArrowUp") return branch.parent;
  if (key === "ArrowDown") return branch.end > branch.index + 1 ? branches[branch.index + 1] : null;
  if (key === "ArrowRight") return branches[branch.end]?.depth === branch.depth && branches[branch.end].parent === branch.parent ? branches[branch.end] : null;
  let best = null;
  const first = branch.parent ? branch.parent.index + 1 : 0;
  for (let index = first; index < branch.index; index = branches[index].end) best = branches[index];
  return best;
}

/**
 * Returns the branch with the same frames as another tree's branch, or null.
 * @param {Branch[]} branches @param {Branch | null} branch
 */
export function same(branches, branch) {
  if (!branch) return null;
  /** @type {Branch | null} */
  let found = null;
  for (const of of path_of(branch)) {
    const end = found ? found.end : branches.length;
    /** @type {Branch | null} */
    let next = null;
    for (let index = found ? found.index + 1 : 0; index < end && !next; index = branches[index].end) {
      /** @type {Branch} */
      const one = branches[index];
      if (one.name === of.name && one.filename === of.filename && one.line === of.line) next = one;
    }
    if (!next) return found;
    found = next;
  }
  return found;
}
