// Palettes that colour-blind readers can tell apart, and the stable colour of a group's number.

// Twelve hues after Paul Tol's and Okabe and Ito's palettes, in an order in which neighbours differ in lightness.
const HUES = [
  [0x44, 0x77, 0xaa], [0xee, 0x88, 0x66], [0x22, 0x88, 0x77], [0xdd, 0xcc, 0x77],
  [0xaa, 0x44, 0x99], [0x88, 0xcc, 0xee], [0xcc, 0x66, 0x77], [0x99, 0x99, 0x33],
  [0x66, 0x55, 0xb0], [0x77, 0xaa, 0xdd], [0xe6, 0x9f, 0x00], [0x56, 0xb4, 0x9c],
];
// Stops of viridis, from small or young to large or old.
const RAMP = [
  [0x44, 0x01, 0x54], [0x47, 0x2d, 0x7b], [0x3b, 0x52, 0x8b], [0x2c, 0x72, 0x8e], [0x21, 0x91, 0x8c],
  [0x28, 0xae, 0x80], [0x5e, 0xc9, 0x62], [0xad, 0xdc, 0x30], [0xfd, 0xe7, 0x25],
];
// Groups of a size or an age are powers of two: of bytes from 512 B to 16 GiB, of events from 1 to 16 million. The others are
// numbered by what they hold at the peak, the largest first.
/** @type {Partial<Record<Colouring, [least: number, most: number]>>} */
const ORDERED = {size: [9, 34], age: [0, 24]};

/**
 * Ways of colouring blocks, in the order of the menu.
 * @type {Colouring[]}
 */
export const COLOURINGS = ["stack", "function", "owner", "pool", "stream", "scope", "size", "age"];

/**
 * Returns the colour of a group as [red, green, blue]. It depends on the group's number and the kind alone.
 * @param {Colouring} kind @param {number} group
 */
export function rgb(kind, group) {
  const ends = ORDERED[kind];
  if (ends) {
    const [least, most] = ends;
    return along((group - least) / (most - least));
  }
  return shade(HUES[group % HUES.length], Math.floor(group / HUES.length) % 3);
}

/**
 * Returns the colour of a group for CSS.
 * @param {Colouring} kind @param {number} group
 */
export function css(kind, group) {
  const [red, green, blue] = rgb(kind, group);
  return `rgb(${red}, ${green}, ${blue})`;
}

/**
 * Returns the colour of a text on a group's colour: the darker or the lighter, by luminance.
 * @param {Colouring} kind @param {number} group
 */
export function text_on(kind, group) {
  const [red, green, blue] = rgb(kind, group).map(part => {
    const of = part / 255;
    return of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}

/** Returns whether the page is dark, by the toggle or else by the reader's preference. */
export function is_dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Returns a colour that style.css defines, resolved for a canvas: token("--active") is "rgb(26, 30, 38)".
 * @param {string} name
 */
export function token(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** @param {number[]} colour @param {number} step */
function shade(colour, step) {
  if (step === 1) return colour.map(part => Math.round(part * 0.78));
  if (step === 2) return colour.map(part => Math.round(part + (255 - part) * 0.3));
  return colour;
}

/** @param {number} fraction */
function along(fraction) {
  const at = Math.min(Math.max(fraction, 0), 1) * (RAMP.length - 1);
  const index = Math.min(Math.floor(at), RAMP.length - 2);
  return RAMP[index].map((part, of) => Math.round(part + (RAMP[index + 1][of] - part) * (at - index)));
}
