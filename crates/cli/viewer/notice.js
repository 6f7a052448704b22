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
    const lines = device ? [...lacks(device, app.state), ...device.warnings] : [];
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
  if (device.n_events === 0 && device.n_lives > 0 && view === "timeline") lines.push("No events were recorded, so the timeline has one moment: the memory at the end, as in State, Stacks and Blocks.");
  else if (device.n_lives === 0) lines.push("No block was recorded on this device, so there is nothing to show. Select another device or file, or record the process that uses the device.");
  if (device.n_lives > 0 && !device.has_segments && view === "state") lines.push("The file has no segments, so the state is empty. Timeline, Stacks and Blocks show its blocks; a file of torch.cuda.memory._dump_snapshot has segments.");
  if (device.n_lives > 0 && !device.has_stacks && (view === "stacks" || colour === "stack")) lines.push(`No block has a stack, so all of them are one group. To record stacks, ${RECORD}; colours by stream, pool or scope work without them.`);
  return lines;
}
