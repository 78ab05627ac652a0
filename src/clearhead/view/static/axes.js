// The figure of one head: where its cells lie, its axes, its colour bar, its row of bars. Drawn by either pen.

/** Up to this many tokens stand at the axes by name; above it places are counted. */
const NAMED = 36;
const LETTER = 6.7; // width of a letter at the axes, CSS pixels

/**
 * @typedef {object} Frame
 * @property {number} x left edge of the cells
 * @property {number} y top edge of the cells
 * @property {number} w width of the cells
 * @property {number} h height of the cells
 * @property {boolean} named whether tokens stand at the axes
 * @property {number} top where the whole begins
 * @property {number} bottom where it ends
 */

/**
 * The frame of queries x keys in a width; every cell at least one device pixel, and whole ones if there are many.
 * @returns {Frame}
 */
function frameOf({ queries, keys, picture, width, most, queryNames, keyNames, density, top = 0 }) {
  const named = queries <= NAMED && keys <= NAMED && width >= 300;
  const longest = (names) => max(3, ...names.map((name) => Array.from(shorten(name, 12)).length));
  const x = named ? min(longest(queryNames) * LETTER + 40, width * 0.34) : 66;
  const y = named ? min(longest(keyNames) * LETTER * 0.86 + 42, 118) : 52;
  const room = { w: width - x - (named ? 30 : 8), h: most - y };
  const square = keys < 3 * queries && queries < 3 * keys;
  let [wide, tall] = [min(44, room.w / picture.columns), min(44, room.h / picture.rows)];
  if (square) wide = tall = min(room.w / max(picture.columns, 1), tall, 44);
  const snap = (size) => {
    const whole = max(1, floor(size * density));
    return whole < 0.88 * size * density ? size : whole / density;
  };
  const [w, tallAll] = [snap(wide) * picture.columns, snap(tall) * picture.rows];
  return { x, y: y + top, w, h: tallAll, named, top, bottom: top + y + tallAll + 6 };
}

/** How many cells must share one so that the picture fits: [down, across]. */
function sharing(picture, width, most, density) {
  const share = (cells, room) => max(1, ceil(cells / max(1, floor(room * density))));
  const both = max(share(picture.rows, most - 58), share(picture.columns, width - 72));
  return [picture.rows > both ? both : 1, picture.columns > both ? both : 1];
}

/** Round numbers from 0 to below `length`, about `wanted` of them. */
function ticks(length, wanted) {
  const rough = max(1, length / wanted);
  const size = 10 ** floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough);
  return times(ceil(length / step), (i) => i * step);
}

/** Where a query or a key lies: the middle of its share of the cells' width or height. */
const across = (frame, picture, key) => frame.x + ((key + 0.5) * frame.w) / (picture.columns * picture.columnStep);
const down = (frame, picture, query) => frame.y + ((query + 0.5) * frame.h) / (picture.rows * picture.rowStep);

function drawHead(pen, frame, picture, figure) {
  const { x, y, w, h, top } = frame;
  if (picture.codes.includes(HIDDEN)) pen.hatch(x, y, w, h);
  pen.cells(x, y, w, h, picture, figure.table);
  pen.frame(x - 0.5, y - 0.5, w + 1, h + 1);
  pen.text(x, top + 13, "key: is looked at →", { fill: pen.colours.key, size: 12, bold: true });
  pen.text(13, y + min(h, 130), "← query: is looking", { fill: pen.colours.query, size: 12, bold: true, turn: -90 });
  if (frame.named) drawNames(pen, frame, figure);
  else drawTicks(pen, frame, picture, figure);
}

function drawNames(pen, { x, y, w, h }, { queryNames, keyNames }) {
  const [wide, tall] = [w / keyNames.length, h / queryNames.length];
  const style = { size: 11, mono: true };
  queryNames.forEach((name, i) => {
    if (tall >= 9) pen.text(x - 14, y + (i + 0.5) * tall + 4, shorten(name, 12), { ...style, anchor: "end" });
  });
  keyNames.forEach((name, i) => {
    if (wide >= 9) pen.text(x + (i + 0.5) * wide + 3, y - 14, shorten(name, 12), { ...style, turn: -60 });
  });
}

function drawTicks(pen, frame, picture, { queries, keys }) {
  const { x, y, w, h } = frame;
  for (const key of ticks(keys, max(2, w / 90))) {
    const at = across(frame, picture, key);
    pen.line(at, y - 5, at, y - 1, pen.colours.faint);
    pen.text(at, y - 12, count(key), { anchor: "middle" });
  }
  for (const query of ticks(queries, max(2, h / 70))) {
    const at = down(frame, picture, query);
    pen.line(x - 5, at, x - 1, at, pen.colours.faint);
    pen.text(x - 15, at + 4, count(query), { anchor: "end" });
  }
}

const BAR_MARKS = { linear: [0, 0.25, 0.5, 1], sqrt: [0, 0.05, 0.25, 1], log: [1e-5, 1e-3, 0.1, 1] };

/** The colour bar, and its limits. */
function drawColourBar(pen, left, y, { state: { scale }, theme }) {
  const width = 146;
  for (let i = 0; i < 64; i++) {
    const next = ((i + 1) * width) / 64;
    pen.rect(left + (i * width) / 64, y, next - (i * width) / 64 + 0.3, 9, css(ramp(theme)[round((i * 255) / 63)]));
  }
  for (const mark of BAR_MARKS[scale]) {
    const at = left + width * scaled(mark, scale);
    const anchor = at === left ? "start" : mark === 1 ? "end" : "middle";
    pen.text(at, y + 20, markText(mark), { size: 10, anchor });
  }
}

const markText = (mark) => ({ 1e-5: "≤10⁻⁵", 1e-3: ".001", 0.1: ".1" })[mark] ?? String(mark).replace(/^0\./, ".");

/** Up to where bars go: 1, or for a row of small weights the next 1, 2 or 5 of a power of ten. */
function limitOf(highest) {
  const power = 10 ** floor(Math.log10(highest));
  return highest > 0.2 || !(highest > 0) ? 1 : power * [1, 2, 5, 10].find((step) => step * power >= highest);
}

/** The row of one query as bars under the cells; bars that share a pixel show their highest. */
function drawBars(pen, frame, picture, y, weights) {
  const { x, w } = frame;
  const span = picture.columns * picture.columnStep;
  const slots = min(span, max(1, floor(w)));
  const highest = new Float32Array(slots).fill(-1);
  weights.forEach((p, key) => {
    const slot = floor((key * slots) / span);
    if (p > highest[slot]) highest[slot] = p;
  });
  const wide = w / slots;
  const gap = wide > 4 ? 1 : 0;
  pen.line(x, y + BARS + 0.5, x + w, y + BARS + 0.5);
  const limit = limitOf(max(...highest));
  highest.forEach((p, slot) => {
    const tall = p > 0 ? max((p / limit) * BARS, 0.6) : 0;
    if (tall) pen.rect(x + slot * wide + gap / 2, y + BARS - tall, wide - gap, tall, pen.colours.key);
  });
  pen.text(x - 14, y + 9, percent(limit), { size: 10, anchor: "end" });
  pen.text(x - 14, y + BARS + 3, "0", { size: 10, anchor: "end" });
}
