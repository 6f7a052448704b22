// The lines above the view: what the file lacks for it and what to do, and what limits its figures.

import {element, plain} from "./text.js";

const RECORD = "call torch.cuda.memory._record_memory_history(stacks=\"python\") before the memory is allocated, or use memreel record";

/**
 * Creates the panel.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const whole = element("div", "notice");
  whole.hidden = true;

  function draw() {
    const device = app.device();
    // What to call for a history comes first.
    const lacking = device ? lacks(device, app.state) : [];
    const limits = device?.warnings ?? [];
    const lines = device?.n_events === 0 ? [...limits, ...lacking] : [...lacking, ...limits];
    whole.hidden = !lines.length;
    const text = lines.join("\n");
    if (whole.dataset.text === text) return;
    whole.dataset.text = text;
    whole.replaceChildren(...lines.map(line => element("p", "", plain(line, 1000))));
  }

  return {
    element: whole,
    show: draw,
    hide() {},
    update(changed) {
      if (["files", "file", "device", "view", "colour"].some(key => changed.has(key))) draw();
    },
  };
}

/**
 * Returns what a view has nothing to show of, one sentence each.
 * @param {Device} device @param {State} state
 */
function lacks(device, {view, colour}) {
  const lines = [];
  if (device.n_events === 0 && device.n_lives > 0 && view === "timeline") lines.push("No events were recorded, so the timeline shows only the memory at the end, as do State, Stacks and Blocks.");
  else if (device.n_lives === 0) lines.push("No blocks were recorded on this device, so there is nothing to show. Select another device or file, or record the process that uses this device.");
  if (device.n_lives > 0 && !device.has_segments && view === "state") lines.push("The file has no segments, so State is empty. Timeline, Stacks and Blocks still show its blocks. Files written by torch.cuda.memory._dump_snapshot have segments.");
  if (device.n_lives > 0 && !device.has_stacks && (view === "stacks" || colour === "stack")) lines.push(`No blocks have stacks, so they are all shown as one group. To record stacks, ${RECORD}; colouring by stream, pool or scope works without stacks.`);
  return lines;
}
