// A drawing: the part of a canvas's 2D context that the views use, which writes SVG.

/** @typedef {[x: number, y: number, across: number, down: number]} Corners */

/** @type {Record<string, string>} */
const XML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"};
/** @type {Record<string, string>} */
const ANCHORS = {center: "middle", right: "end", end: "end"};
const measuring = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
/** @param {number} number */
const short = number => String(Math.round(number * 100) / 100);

/**
 * Returns a text that is safe between the tags of XML and in attributes.
 * @param {string} text
 */
export function escaped(text) {
  // XML 1.0 has no place for control characters, not even as references.
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
    .replace(/[&<>"]/g, one => XML[one]);
}

/**
 * Returns a context of a size in pixels; its method text() returns the SVG.
 * @param {number} width @param {number} height @returns {Drawing}
 */
export function create(width, height) {
  /** @type {string[]} */
  const parts = [];
  /** @type {Record<string, any>[]} */
  const saved = [];
  /** @type {string[]} */
  let path = [];
  /** @type {Record<string, any>} */
  let now = {fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, font: "12px sans-serif", globalAlpha: 1, textAlign: "left", textBaseline: "alphabetic", dash: [], clips: 0};
  const opacity = () => (now.globalAlpha === 1 ? "" : ` opacity="${short(now.globalAlpha)}"`);
  const stroke = () => `fill="none" stroke="${escaped(now.strokeStyle)}" stroke-width="${short(now.lineWidth)}"${now.dash.length ? ` stroke-dasharray="${now.dash.join(" ")}"` : ""}${opacity()}`;
  /** @param {number} x @param {number} y @param {number} across @param {number} down */
  const box = (x, y, across, down) => `x="${short(Math.min(x, x + across))}" y="${short(Math.min(y, y + down))}" width="${short(Math.abs(across))}" height="${short(Math.abs(down))}"`;
  const drawing = {
    fillRect: (/** @type {Corners} */ ...at) => parts.push(`<rect ${box(...at)} fill="${escaped(now.fillStyle)}"${opacity()}/>`),
    strokeRect: (/** @type {Corners} */ ...at) => parts.push(`<rect ${box(...at)} ${stroke()}/>`),
    clearRect() {},
    beginPath() { path = []; },
    /** @param {number} x @param {number} y */
    moveTo: (x, y) => path.push(`M${short(x)} ${short(y)}`),
    /** @param {number} x @param {number} y */
    lineTo: (x, y) => path.push(`L${short(x)} ${short(y)}`),
    closePath: () => path.push("Z"),
    /** @param {number} x @param {number} y @param {number} across @param {number} down */
    rect: (x, y, across, down) => path.push(`M${short(x)} ${short(y)}h${short(across)}v${short(down)}h${short(-across)}Z`),
    stroke() { if (path.length) parts.push(`<path d="${path.join("")}" shape-rendering="auto" ${stroke()}/>`); },
    fill() { if (path.length) parts.push(`<path d="${path.join("")}" shape-rendering="auto" fill="${escaped(now.fillStyle)}"${opacity()}/>`); },
    clip() {
      const id = `c${parts.length}`;
      parts.push(`<clipPath id="${id}"><path d="${path.join("")}"/></clipPath><g clip-path="url(#${id})">`);
      now.clips += 1;
    },
    /** @param {number[]} dash */
    setLineDash(dash) { now.dash = dash; },
    /** @param {string} text */
    measureText(text) {
      measuring.font = now.font;
      return measuring.measureText(text);
    },
    /** @param {string} text @param {number} x @param {number} y */
    fillText(text, x, y) {
      const anchor = ANCHORS[now.textAlign] ?? "start";
      const [, size, family] = /([\d.]+)px(?:\/\S+)?\s+(.*)$/.exec(now.font) ?? [null, "12", "sans-serif"];
      const lift = now.textBaseline === "middle" ? Number(size) * 0.35 : now.textBaseline === "top" ? Number(size) * 0.85 : 0;
      const weight = /bold|[6-9]00/.test(now.font) ? ' font-weight="bold"' : "";
      parts.push(`<text x="${short(x)}" y="${short(y + lift)}" font-size="${size}" font-family="${escaped(family)}"${weight} text-anchor="${anchor}" fill="${escaped(now.fillStyle)}"${opacity()}>${escaped(text)}</text>`);
    },
    save() {
      saved.push({...now});
      now.clips = 0;
    },
    restore() {
      parts.push("</g>".repeat(now.clips));
      now = saved.pop() ?? now;
    },
    text: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" shape-rendering="crispEdges">\n${parts.filter(Boolean).join("\n")}\n</svg>\n`,
  };
  for (const key of ["fillStyle", "strokeStyle", "lineWidth", "font", "globalAlpha", "textAlign", "textBaseline"]) {
    Object.defineProperty(drawing, key, {get: () => now[key], set: value => { now[key] = value; }});
  }
  return /** @type {Drawing} */ (/** @type {unknown} */ (drawing));
}
