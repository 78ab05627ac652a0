// One head: its cells on one canvas, the crosshair on another over it, the exact row as bars on the same axis below.

const BARS = 64; // height of the bars, CSS pixels
const TALLEST = 580; // of the cells and their axis

function matrixPanel(view) {
  const cells = h("canvas", { "aria-hidden": "true" });
  const cross = h("canvas.over", { "aria-hidden": "true" });
  const bars = h("canvas.bars", { role: "img", label: "The row of the query, exact" });
  const field = h("div", {
    class: "field", role: "application", tabIndex: 0, "aria-roledescription": "attention matrix",
    label: "Attention of the chosen head. Up and down: query. Left and right: key. T: next largest key.",
  }, cells, cross);
  const parts = { cells, cross, bars, field, frame: null, picture: null };
  const title = h("h2");
  const chips = h("span.chips");
  const bar = h("canvas.colourbar", { role: "img" });
  const key = h("span.small.soft");
  const readout = h("p.readout");
  const caption = h("p.small.soft");
  const exact = button("show the highest of all queries", { class: "small-button", hidden: true }, () => poolAll(view));
  const table = tableBehind("This head as a table", () => cellsTable(view));
  listenToField(view, parts);
  part(view, "stack layer head overview ablated meta", () => nameHead(view, title, chips));
  part(view, "image scale theme matrix-width thick sink", () => drawMatrix(view, parts));
  part(view, "image matrix-width thick sink", () => setCaption(view, parts, caption, exact));
  part(view, "image row hover query key theme matrix-width sink", () => drawCross(view, parts));
  part(view, "image row pointedRow hover theme matrix-width sink", () => drawRow(view, parts, readout));
  part(view, "scale theme matrix-width", () => drawBar(view, bar));
  part(view, "image sink", () => drawKey(view, key));
  part(view, "image query key sink", () => table.refresh());
  const element = panel("matrix-panel", "One head",
    h("div.title", title, chips), h("div.keyline", bar, key, ablateControls(view)),
    field, bars, readout, caption, exact, table);
  return watchWidth(view, element, "matrix-width");
}

/** Says what hatched and magenta cells are, where there are any. */
function drawKey(view, key) {
  if (!imageNow(view)) return;
  const { codes } = pictureOf(view.shown.image);
  put(key,
    ...(codes.includes(HIDDEN) || !view.state.sink ? [h("span.swatch.hatched"), "hidden by the mask "] : []),
    ...(codes.includes(NAN_CODE) ? [h("span.swatch.nan"), "not a number"] : []));
}

function nameHead(view, title, chips) {
  const { layer, head } = view.state;
  setText(title, `Layer ${layer} · Head ${head}`);
  const known = knownOf(view, layer, head);
  const chip = (...kids) => h("span.chip.small", ...kids);
  put(chips, ...(known ? [chip(h("strong", known.pattern)),
    ...["entropy", "sink"].map((name) => chip(`${name} `, h("strong", known.number(name))))] : []));
}

/** The picture with or without its first key. */
function plainPicture(view) {
  const given = pictureOf(view.shown.image);
  return !view.state.sink && given.columnStep === 1 ? withoutFirst(given) : given;
}

/** The picture as the choices want it, with so many rows and columns in one. */
function wantedPicture(view, rows, columns) {
  const picture = pool(plainPicture(view), rows, columns);
  return view.state.thick ? thicken(picture, view.state.thick / 100) : picture;
}

const labels = (tokens) => tokens.map((token) => token.label);

/** What `frameOf` and `drawHead` need beside the picture. */
function figureOf(view) {
  const { queries, keys } = stackNow(view);
  const short = queries <= NAMED && keys <= NAMED;
  return {
    queries, keys,
    queryNames: short ? labels(queryTokens(view)) : [], keyNames: short ? labels(keyTokens(view)) : [],
    table: pixelTable(`${view.state.scale} ${view.theme}`),
  };
}

function drawMatrix(view, parts) {
  const width = view.widths["matrix-width"];
  if (!width || !imageNow(view)) return;
  const figure = figureOf(view);
  const density = devicePixelRatio || 1;
  parts.picture = wantedPicture(view, ...sharing(pictureOf(view.shown.image), width, TALLEST, density));
  parts.frame = frameOf({ ...figure, picture: parts.picture, width, most: TALLEST, density });
  const pen = penOn(view, parts.cells, width, parts.frame.bottom);
  drawHead(pen, parts.frame, parts.picture, figure);
}

function setCaption(view, { picture }, caption, exact) {
  if (!picture || !imageNow(view)) return;
  const { head } = view.shown.image;
  const given = pictureOf(view.shown.image);
  const [rows, columns] = [picture.rowStep / given.rowStep, picture.columnStep / given.columnStep];
  const whole = head.row_of === "exact" && head.column_of === "exact";
  const said = [whole ? "One cell for every weight" : head.text[0].toUpperCase() + head.text.slice(1)];
  if (rows * columns > 1) said.push(`at this size one cell shows the highest of ${rows} × ${columns}`);
  setText(caption, [...said, ...choiceNotes(view)].join("; ") + ".");
  exact.hidden = !head.row_of.startsWith("first of");
}

/** What a choice has done to the picture. */
function choiceNotes({ state: { thick, sink }, shown }) {
  const notes = thick ? [`weights above ${thick}% are drawn three cells wide`] : [];
  if (sink) return notes;
  const left = pictureOf(shown.image).columnStep === 1
    ? "the first key is left out, and each row sums to one without it"
    : "rows and numbers leave the first key out; this pooled picture still has it";
  return [...notes, left];
}

/** The highest of all queries takes longer than some queries exactly, so it waits until it is asked for. */
function poolAll(view) {
  view.pooled = true;
  refresh(view);
}

function drawCross(view, { cross, frame, picture, field }) {
  if (!frame || !imageNow(view)) return;
  const { query, key } = pointed(view);
  const pen = penOn(view, cross, view.widths["matrix-width"], frame.bottom);
  const [x, y] = [across(frame, picture, key), down(frame, picture, query)];
  const half = max(frame.w / picture.columns / 2, 3.5) + 1.5;
  const tall = max(frame.h / picture.rows / 2, 3.5) + 1.5;
  const { colours } = view;
  pen.line(frame.x, y, max(frame.x, x - half), y, colours.query);
  pen.line(min(x + half, frame.x + frame.w), y, frame.x + frame.w, y, colours.query);
  pen.line(x, frame.y, x, max(frame.y, y - tall), colours.key);
  pen.line(x, min(y + tall, frame.y + frame.h), x, frame.y + frame.h, colours.key);
  pen.frame(x - half, y - tall, 2 * half, 2 * tall, colours.page, 3);
  pen.frame(x - half, y - tall, 2 * half, 2 * tall, colours.ink, 1.5);
  pen.text(frame.x - 3, y + 4, "▶", { fill: colours.query, size: 10, anchor: "end" });
  pen.text(x, frame.y - 2, "▼", { fill: colours.key, size: 10, anchor: "middle" });
  field.dataset.cell = `${query},${key}`;
  field.dataset.frame = JSON.stringify(frame);
}

/** The row under the pointer, else the chosen one, as bars; and its cell in words. */
function drawRow(view, { bars, frame, picture }, readout) {
  if (!frame) return;
  const { query, key } = pointed(view);
  const answer = [view.shown.pointedRow, view.shown.row].find((row, i) =>
    row && isCurrent(view, i ? "row" : "pointedRow", { ...headNow(view), query }));
  if (!answer) return;
  const weights = weightsOf(view, answer);
  const pen = penOn(view, bars, view.widths["matrix-width"], BARS + 18);
  drawBars(pen, frame, picture, 2, weights);
  bars.dataset.query = query;
  pen.text(frame.x, BARS + 14, `row of query ${count(query)}, ${isRounded(answer) ? "rounded" : "exact"}`);
  sayCell(view, readout, answer, weights[key], query, key);
}

function sayCell(view, readout, answer, p, query, key) {
  const value = p < 0 ? "hidden by the mask" : percentIn(answer, p);
  const figures = p < 0 || isRounded(answer) || isNaN(p) ? "" : ` (${p.toPrecision(6)})`;
  put(readout,
    h("span.dot.qdot"), tokenNode(queryLabel(view, query), "q"), ` at ${count(query)} looks at `,
    h("span.dot.kdot"), tokenNode(keyLabel(view, key), "k"), ` at ${count(key)}: `,
    h("strong", value), h("span.soft", figures));
}

function drawBar(view, canvas) {
  drawColourBar(penOn(view, canvas, 170, 24), 12, 1, view);
  setAttribute(canvas, "aria-label", `Colour bar of weights, ${view.state.scale} scale, 0 to 1`);
}

/** The picture in numbers: all of a small head, else 24 x 24 cells round the chosen one. */
function cellsTable(view) {
  if (!imageNow(view)) return h("p", "Not there yet.");
  const { rows, columns, codes, rowStep, columnStep } = plainPicture(view);
  const span = (place, step, cells) => {
    const first = clamp(floor(place / step) - 12, cells - 24);
    return times(min(24, cells), (i) => first + i);
  };
  const down = span(view.state.query, rowStep, rows);
  const across = span(keyNow(view), columnStep, columns);
  return weightTable(view, "Cells of the picture, rounded to one byte", down.map((row) => row * rowStep),
    across.map((column) => column * columnStep),
    (i, j) => weightWords(decodeWeight(codes[down[i] * columns + across[j]]), aboutPercent));
}

const weightWords = (p, write) => (p < 0 ? "hidden" : write(p));

/** Weights of some queries by some keys. @param {(i: number, j: number) => string} words of the cell */
function weightTable(view, caption, queries, keys, words) {
  return tableOf(`${caption}; rows are queries, columns are keys`,
    ["query \\ key", ...keys.map((key) => `${key} ${keyLabel(view, key)}`)],
    queries.map((query, i) => [`${query} ${queryLabel(view, query)}`, ...keys.map((_, j) => words(i, j))]));
}
