// Colour: a weight's colour is a place on a ramp, and a ramp is walked in even steps of OKLab.
// Wire codes: 0 hidden by the mask, 1..254 = 1 + round(253 * sqrt(p)), 255 not a number.

/** Stops [lightness, chroma, hue in degrees] in OKLCH. Zero sinks into the page, weight stands out. */
const RAMPS = {
  light: [[0.965, 0.013, 235], [0.85, 0.065, 218], [0.67, 0.105, 235], [0.45, 0.13, 264], [0.22, 0.095, 279]],
  dark: [[0.215, 0.025, 275], [0.36, 0.11, 282], [0.55, 0.125, 255], [0.77, 0.105, 215], [0.965, 0.05, 170]],
};
/** Differences: blue is less, orange is more, zero is the page. */
const DIVERGING = {
  light: [[0.42, 0.13, 255], [0.72, 0.10, 245], [1.0, 0.0, 0], [0.76, 0.13, 60], [0.48, 0.14, 45]],
  dark: [[0.86, 0.10, 235], [0.58, 0.13, 250], [0.1775, 0.0125, 270], [0.60, 0.13, 50], [0.88, 0.11, 75]],
};
const SCALES = ["linear", "sqrt", "log"];
const SCALE_NAMES = { linear: "linear", sqrt: "√", log: "log₁₀" };
const LOG_FLOOR = 1e-5;
const NOT_A_NUMBER = [255, 0, 200];
const HIDDEN = 0;
const NAN_CODE = 255;

/** The weight that a wire code stands for; -1 hidden. */
function decodeWeight(code) {
  if (code === HIDDEN) return -1;
  return code === NAN_CODE ? NaN : ((code - 1) / 253) ** 2;
}

/** The wire code of a weight; anything below 0 is hidden. */
function encodeWeight(p) {
  if (Number.isNaN(p)) return NAN_CODE;
  return p < 0 ? HIDDEN : 1 + Math.round(253 * Math.sqrt(Math.min(p, 1)));
}

/** Where a weight stands on the ramp, 0..1. */
function scaled(p, scale) {
  const inside = Math.min(Math.max(p, 0), 1);
  if (scale === "linear") return inside;
  if (scale === "sqrt") return Math.sqrt(inside);
  return 1 - Math.log10(Math.max(inside, LOG_FLOOR)) / Math.log10(LOG_FLOOR);
}

function oklab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** OKLab to sRGB bytes (Björn Ottosson, "A perceptual color space for image processing", 2020). */
function toRgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(toByte);
}

function toByte(linear) {
  const inside = Math.min(Math.max(linear, 0), 1);
  const curved = inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055;
  return Math.round(255 * curved);
}

const mix = (from, to, share) => from.map((value, i) => value + (to[i] - value) * share);
const apart = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);

/** `count` colours through the stops, each as far from the next: the path is measured, then cut evenly. */
function evenRamp(stops, count) {
  const corners = stops.map(oklab);
  const along = [0];
  for (let i = 1; i < corners.length; i++) along.push(along[i - 1] + apart(corners[i - 1], corners[i]));
  const total = along[along.length - 1];
  return Array.from({ length: count }, (_, n) => {
    const distance = (total * n) / (count - 1);
    const leg = Math.max(1, along.findIndex((end) => end >= distance - 1e-12));
    const share = (distance - along[leg - 1]) / (along[leg] - along[leg - 1]);
    return toRgb(mix(corners[leg - 1], corners[leg], share));
  });
}

/** A diverging map's halves are cut apart, so that zero is exactly the middle stop. */
function evenDiverging(stops) {
  const below = evenRamp(stops.slice(0, 3), 129);
  return below.concat(evenRamp(stops.slice(2), 129).slice(1));
}

/** Computed at first use: a module has no side effects when it is read. */
const lazily = (make) => {
  const made = {};
  return (name) => (made[name] ??= make(name));
};
/** ramp("light" | "dark"): 256 colours [r, g, b] of a weight. */
const ramp = lazily((theme) => evenRamp(RAMPS[theme], 256));
/** divergingRamp("light" | "dark"): 257 colours of a signed number; number 128 is zero. */
const divergingRamp = lazily((theme) => evenDiverging(DIVERGING[theme]));

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

/** The colour of one weight, [r, g, b]. */
function weightColour(p, scale, theme) {
  return Number.isNaN(p) ? NOT_A_NUMBER : ramp(theme)[Math.round(255 * scaled(p, scale))];
}

/** The colour of a signed number between -limit and limit, [r, g, b]. */
function signedColour(value, limit, theme) {
  const share = limit > 0 ? Math.min(Math.max(value / limit, -1), 1) : 0;
  return Number.isNaN(value) ? NOT_A_NUMBER : divergingRamp(theme)[128 + Math.round(128 * share)];
}

/** Black or white, whichever is read better on the colour (WCAG relative luminance). */
function inkOn(colour) {
  const [r, g, b] = colour.map((byte) => ((byte / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

/** 256 pixels (little-endian RGBA) of the 256 wire codes; hidden cells stay clear and show the hatching under them. */
const pixelTable = lazily((name) => {
  const [scale, theme] = name.split(" ");
  const pixel = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const codes = Uint32Array.from({ length: 256 }, (_, code) => pixel(weightColour(decodeWeight(code), scale, theme)));
  codes[HIDDEN] = 0;
  return codes;
});
