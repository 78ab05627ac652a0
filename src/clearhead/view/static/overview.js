// All heads at a glance: a canvas of small pictures or numbers under a grid of real buttons.

const LABEL = 30; // width of the layers' names
const TALLEST_GRID = 500; // of the small pictures
/** Short names of patterns, and their hues: the letters carry what the colour carries. */
const PATTERN_MARKS = {
  previous: ["prev", 255], induction: ["ind", 30], duplicate: ["dup", 330], sink: ["1st", 95],
  self: ["self", 190], alignment: ["align", 150], diffuse: ["wide", 290], mixed: ["mix", null],
};

function overviewPanel(view) {
  const choice = h("select", { label: "What the overview shows", listen: {
    change: () => choose(view, { statistic: choice.value }),
  } });
  const size = h("span.soft");
  const grid = h("div.heads", { role: "grid", label: "Heads: layers down, heads across" });
  const canvas = h("canvas", { "aria-hidden": "true" });
  const progress = h("progress", { max: 1, label: "Statistics of all heads", hidden: true });
  const legend = h("p.legend.small.soft");
  const all = pill("", () => sweep(view));
  const said = h("p.sentence");
  const table = tableBehind("Heads as a table", () => headsTable(view));
  const parts = { choice, size, grid, canvas, progress, legend, all, said, table, hovered: null, buttons: [] };
  hear(grid, "keydown", (event) => moveInGrid(view, parts, event));
  hear(grid, "mouseleave", () => hoverHead(view, parts, null));
  part(view, "stack meta", () => fillChoice(view, parts));
  part(view, "stack meta overview heads-width", () => buildGrid(view, parts));
  part(view, "overview statistic scale theme heads-width effect ablated", () => drawHeads(view, parts));
  part(view, "swept query key", () => {
    if (view.state.statistic === CHANGE) drawHeads(view, parts);
    sayHead(view, parts);
  });
  part(view, "overview layer head stack effect ablated", () => markHead(view, parts));
  const element = panel("heads-panel", "Heads",
    h("div.title", h("h2", "Heads"), size, choice),
    h("div.pictures", canvas, grid), progress, legend, all, said, table);
  return watchWidth(view, element, "heads-width");
}

function fillChoice(view, { choice, size }) {
  const stack = stackNow(view);
  const names = [["picture", "attention"], ["pattern", "pattern"]];
  for (const name of statisticsOf(view.meta, stack.id)) names.push([name, statisticName(name)]);
  put(choice, ...names.map(([value, label]) => h("option", { value }, label)));
  const heads = [...new Set(stack.layers)];
  setText(size, `${plural(stack.layers.length, "layer")} × ${heads.length === 1 ? plural(heads[0], "head") : "heads"}`);
}

/** How wide a head may be, CSS pixels. */
const headWidth = (view) =>
  max(5, min(44, floor(((view.widths["heads-width"] ?? 400) - LABEL) / max(...stackNow(view).layers))));

/** One button a head; rebuilt only when the stack or the room changes. */
function buildGrid(view, parts) {
  const { layers } = stackNow(view);
  const most = max(...layers);
  const wide = headWidth(view);
  const tall = min(wide, max(14, floor(TALLEST_GRID / layers.length)));
  const key = `${view.state.stack} ${wide} ${tall} ${layers.join()}`;
  if (parts.key === key) return;
  const buttons = layers.map((heads, layer) => rowOfButtons(view, parts, layer, heads));
  assign(parts, { key, wide, tall, buttons });
  const rows = buttons.map((row, layer) =>
    h("div", { role: "row" }, h("span.layer", { role: "rowheader" }, `L${layer}`), ...row));
  parts.grid.style.setProperty("--wide", `${wide}px`);
  parts.grid.style.setProperty("--tall", `${tall}px`);
  put(parts.grid, headNumbers(most, wide), ...rows);
}

function headNumbers(most, wide) {
  const every = ceil(18 / wide);
  const number = (head) => h("span.number", { role: head % every ? "none" : "columnheader" }, head % every ? "" : head);
  return h("div", { role: "row" }, h("span.layer", { role: "columnheader" }, h("span.unseen", "layer")),
    ...times(most, number));
}

function rowOfButtons(view, parts, layer, heads) {
  return times(heads, (head) =>
    button("", { role: "gridcell", tabIndex: -1, label: `Layer ${layer} head ${head}`, listen: {
      mouseenter: () => hoverHead(view, parts, { layer, head }),
    } }, () => choose(view, { layer, head })));
}

function hoverHead(view, parts, head) {
  parts.hovered = head;
  sayHead(view, parts);
}

function drawHeads(view, parts) {
  const answer = view.shown.overview;
  const { wide, tall, canvas, choice } = parts;
  if (!wide || !isCurrent(view, "overview", { stack: view.state.stack })) return;
  choice.value = view.state.statistic;
  const { layers } = stackNow(view);
  const pen = penOn(view, canvas, wide * max(...layers), tall * layers.length);
  const { statistic } = view.state;
  if (statistic === "picture") drawThumbs(view, parts, pen, answer);
  else if (statistic === "pattern") drawPatterns(view, parts, pen, answer.head);
  else drawNumbers(view, parts, pen, statistic);
  parts.all.hidden = statistic !== CHANGE;
  setText(parts.all, sweepWords(view));
  drawMarks(view, parts, pen);
  parts.progress.hidden = answer.head.done;
  parts.progress.value = answer.head.progress;
  if (parts.table.open) parts.table.refresh();
}

/** Calls with the corner and the place of every head. */
function eachHead(layers, { wide, tall }, draw) {
  let index = 0;
  layers.forEach((heads, layer) => {
    for (let head = 0; head < heads; head++) draw(head * wide, layer * tall, layer, head, index++);
  });
}

function drawThumbs(view, parts, pen, { head, data }) {
  const { wide, tall } = parts;
  const size = head.rows * head.columns;
  const table = pixelTable(`${view.state.scale} ${view.theme}`);
  const share = (cells, room) => max(1, ceil(cells / (room * (devicePixelRatio || 1))));
  const [down, across] = [share(head.rows, tall), share(head.columns, wide)];
  eachHead(stackNow(view).layers, parts, (x, y, layer, _, index) => {
    const thumb = pictureOf({ head, data: data.slice(index * size, (index + 1) * size) });
    pen.rect(x, y, wide - 1, tall - 1, view.colours.panel);
    pen.cells(x, y, wide - 1, tall - 1, pool(thumb, down, across), table);
  });
  const how = head.done ? "small pictures show the highest weight of each patch" : "small pictures of some queries";
  setText(parts.legend, head.rows < stackNow(view).queries ? how : "");
}

function patternColour(id, theme) {
  const hue = PATTERN_MARKS[id]?.[1] ?? null;
  return toRgb(oklab([theme === "dark" ? 0.42 : 0.87, hue === null ? 0.005 : 0.075, hue ?? 0]));
}

function drawPatterns(view, parts, pen, { patterns }) {
  const counts = new Map();
  eachHead(stackNow(view).layers, parts, (x, y, layer, head) => {
    const id = patterns[layer][head];
    const colour = patternColour(id, view.theme);
    counts.set(id, (counts.get(id) ?? 0) + 1);
    wordCell(pen, x, y, parts, PATTERN_MARKS[id]?.[0] ?? id.slice(0, 4), colour);
  });
  const swatch = (id) => h("span.swatch", { style: { background: css(patternColour(id, view.theme)) } });
  const found = [...counts].sort((a, b) => b[1] - a[1]);
  put(parts.legend, ...found.map(([id, heads]) =>
    h("span.entry", swatch(id), `${patternName(view, id)} ${heads}`)));
}

function drawNumbers(view, parts, pen, name) {
  const known = headPlaces(view).map(({ layer, head }) => numberOf(view, name, layer, head)).filter((one) => one !== null);
  const most = max(1e-9, ...known.map(abs)); // a change may be more or less
  const [low, high] = name === CHANGE ? [-most, most] : [min(...known), max(...known)];
  const colours = (name === CHANGE ? divergingRamp : ramp)(view.theme);
  eachHead(stackNow(view).layers, parts, (x, y, layer, head) => {
    const value = numberOf(view, name, layer, head);
    if (value === null) return pen.hatch(x, y, parts.wide - 1, parts.tall - 1);
    const share = high > low ? (value - low) / (high - low) : 0;
    wordCell(pen, x, y, parts, cellNumber(name, value), colours[round((colours.length - 1) * share)]);
  });
  if (!known.length) return setText(parts.legend, name === CHANGE && sweptNow(view)?.done ? "Nothing follows this query." : "");
  put(parts.legend, statisticText(name, low), stripOf(colours), statisticText(name, high));
}

function cellNumber(name, value) {
  if (name === CHANGE) return signed(value, 2);
  return hasOwn(UNITS, name) ? value.toFixed(value < 9.95 ? 1 : 0) : tinyWeight(value);
}

/** The colours of a ramp in a row, for a legend. */
function stripOf(colours) {
  const some = colours.filter((_, i) => i % 16 === 0).map(css);
  return h("span.strip", { style: { background: `linear-gradient(90deg,${some})` } });
}
