// One query: what it looks at, exactly. A tile of cells round the chosen one, and the largest keys in their context.

const LARGEST = 10;
const TILE_SIDE = 11;
const CONTEXT = 3; // tokens on either side of a key

function rowPanel(view) {
  const title = h("h2");
  const sum = h("p.soft");
  const tile = h("canvas.tile", { role: "img" });
  const body = h("tbody");
  const head = h("tr", ...["key", "in context", "", "weight"].map((name, i) =>
    h("th", { scope: "col", class: i === 3 ? "number" : "" }, name || h("span.unseen", "bar"))));
  const table = h("table.top", h("caption.unseen", "Largest keys of the query"), h("thead", head), body);
  const tileTable = tableBehind("These cells as a table", () => tileAsTable(view));
  hear(tile, "click", (event) => chooseInTile(view, event));
  part(view, "query stack row meta sink", () => sayRow(view, title, sum));
  part(view, "tile theme scale row-width hover query key row", () => drawTile(view, tile, tileTable));
  part(view, "row key sink", () => fillTop(view, body));
  const element = panel("row-panel", "One query", h("div.title", title), sum, tile, tileTable, table);
  return watchWidth(view, element, "row-width");
}

function sayRow(view, title, sum) {
  const { query } = view.state;
  put(title, `Query ${count(query)} `, tokenNode(queryLabel(view, query), "q"));
  if (!rowNow(view)) return;
  const { head } = view.shown.row;
  const about = isRounded(view.shown.row) ? "≈" : "";
  if (head.sum === 0) return setText(sum, "This query may look at nothing.");
  const write = (value, digits) => (value === null ? "NaN" : about + value.toFixed(digits));
  const entropy = write(head.entropy, about ? 1 : 2);
  const keys = write(head.effective_keys, 1);
  setText(sum, `Σ ${write(head.sum, about ? 2 : 4)} · entropy ${entropy} bits · ${keys} effective keys`);
}

/** Asks for the cells round the pointed cell. */
function askTile(view) {
  const { query, key } = pointed(view);
  const size = { rows: TILE_SIDE, columns: TILE_SIDE };
  want(view, "tile", "tile", { ...headNow(view), query, key, ...size }, view.hover ? 20 : 0);
}

/** Where the tile's cells lie on its canvas. */
function tileFrame(view, { rows, columns }) {
  const width = view.widths["row-width"] ?? 320;
  const left = 74;
  const side = max(12, min(26, floor((width - left - 26) / max(columns, 1))));
  return { left, top: 62, side, width: left + columns * side + 26, height: 62 + rows * side + 4 };
}

function drawTile(view, canvas, table) {
  if (!isCurrent(view, "tile", headNow(view))) return;
  const { head } = view.shown.tile;
  const { left, top, side, width, height } = tileFrame(view, head);
  const pen = penOn(view, canvas, width, height);
  const at = pointed(view);
  floatsOf(view.shown.tile).forEach((p, i) => {
    const [x, y] = [left + (i % head.columns) * side, top + floor(i / head.columns) * side];
    weightCell(view, pen, x, y, { wide: side, tall: side }, p, tinyWeight(p));
  });
  drawTileNames(view, pen, { left, top, side, head, at });
  const [y, x] = [at.query - head.query, at.key - head.key];
  if (y >= 0 && y < head.rows) pen.frame(left, top + y * side, head.columns * side, side, view.colours.query, 1.5);
  if (x >= 0 && x < head.columns) pen.frame(left + x * side, top, side, head.rows * side, view.colours.key, 1.5);
  setAttribute(canvas, "aria-label", `Weights of ${head.rows} queries by ${head.columns} keys round the chosen cell`);
  table.refresh();
}

function drawTileNames(view, pen, { left, top, side, head, at }) {
  const style = (here, kind) => ({ fill: here ? view.colours[kind] : view.colours.soft, mono: true, bold: here });
  for (let row = 0; row < head.rows; row++) {
    const name = shorten(queryLabel(view, head.query + row), 10);
    const look = style(head.query + row === at.query, "query");
    pen.text(left - 5, top + (row + 0.5) * side + 3, name, { ...look, anchor: "end" });
  }
  for (let column = 0; column < head.columns; column++) {
    const name = shorten(keyLabel(view, head.key + column), 9);
    const place = left + (column + 0.5) * side + 3;
    pen.text(place, top - 5, name, { ...style(head.key + column === at.key, "key"), turn: -60 });
  }
}

function chooseInTile(view, event) {
  if (!view.shown.tile) return;
  const { head } = view.shown.tile;
  const { left, top, side } = tileFrame(view, head);
  const column = floor((event.offsetX - left) / side);
  const row = floor((event.offsetY - top) / side);
  const inside = row >= 0 && column >= 0 && row < head.rows && column < head.columns;
  if (inside) choose(view, { query: head.query + row, key: head.key + column });
}

function tileAsTable(view) {
  const { head } = view.shown.tile;
  const weights = floatsOf(view.shown.tile);
  const from = (first, length) => times(length, (i) => first + i);
  return weightTable(view, "Cells round the chosen one", from(head.query, head.rows), from(head.key, head.columns),
    (i, j) => weightWords(weights[i * head.columns + j], (p) => percentIn(view.shown.tile, p)));
}

/** The ten largest keys in their context, and all others together, so that a diffuse head never looks peaked. */
function fillTop(view, body) {
  const row = rowNow(view);
  if (!row) return;
  const { top, others, rest } = largest(row, LARGEST);
  const chosen = keyNow(view);
  const lines = top.map((key) => topLine(view, key, row[key], key === chosen));
  if (others) lines.push(othersLine(view, others, rest));
  put(body, ...lines);
}

function topLine(view, key, p, chosen) {
  const pick = () => choose(view, { key });
  const cells = [
    h("td", button(count(key), { class: "plain", "aria-current": chosen ? "true" : null, label: `key ${key}` }, pick)),
    h("td", contextOf(keyTokens(view), key)),
    h("td.barcell", bar(p)),
    h("td.number", percentIn(view.shown.row, p)),
  ];
  return h("tr", { class: chosen ? "chosen" : "", listen: { click: pick } }, ...cells);
}

function contextOf(tokens, place) {
  const flow = (from, to) => tokens.slice(max(from, 0), to)
    .map((token) => (token.rest ? "" : token.flow.replace(/\n/g, ""))).join("");
  const here = flow(place, place + 1);
  return h("span.context", h("bdi.soft", flow(place - CONTEXT, place)),
    tokenNode(here.trim() ? here : labelAt(tokens, place), "here"),
    h("bdi.soft", flow(place + 1, place + 1 + CONTEXT)));
}

const bar = (p, kind = "") =>
  h("span", { class: `bar ${kind}` }, h("span", { style: { width: `${max(0, min(100, 100 * p)) || 0}%` } }));

function othersLine(view, others, rest) {
  return h("tr.others", h("td"), h("td", plural(others, "other key")),
    h("td.barcell", bar(rest)), h("td.number", percentIn(view.shown.row, rest)));
}
