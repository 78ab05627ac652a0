// The chosen query and key in every head: who else looks there?

const TALL = 16; // layers from which on the grid is folded

function pairPanel(view) {
  const title = h("h2");
  const best = h("p.small");
  const canvas = h("canvas.pair", { role: "img", label: "Weight of this pair in every head" });
  const fold = h("details.fold", h("summary.small.soft", "all heads"), canvas);
  const next = h("p.small");
  const table = tableBehind("This pair as a table", () => pairTable(view));
  const parts = { canvas, best, next, table };
  hear(canvas, "click", (event) => chooseInPair(view, parts, event));
  part(view, "stack meta", () => void (fold.open = stackNow(view).layers.length <= TALL));
  part(view, "query key row stack meta", () => sayPair(view, title));
  part(view, "row key query", () => offerNext(view, next));
  part(view, "pair scale theme heads-width layer head", () => drawPair(view, parts));
  return panel("pair-panel", "This pair in every head", title, best, fold, next, table);
}

function askPair(view) {
  const args = { stack: view.state.stack, query: view.state.query, key: keyNow(view) };
  if (rowNow(view) || view.state.key !== null) want(view, "pair", "pair", args, 60);
}

function sayPair(view, title) {
  put(title, "This pair in every head ",
    tokenNode(queryLabel(view, view.state.query), "q"), " → ",
    tokenNode(keyLabel(view, keyNow(view)), "k"));
}

/** A first key that collects what no other key gets says little: the next one is a click away. */
function offerNext(view, next) {
  const row = rowNow(view);
  const other = row && keyNow(view) === 0 ? largest(row, 2).top.find((key) => key !== 0) : undefined;
  if (other === undefined) return put(next);
  const label = h("span", "the next key, ", tokenNode(shorten(keyLabel(view, other), 16), "k"),
    ` ${percentIn(view.shown.row, row[other])}`);
  put(next, "The first key collects what is left over; ",
    pill(label, () => choose(view, { key: other })));
}

function drawPair(view, parts) {
  if (!isCurrent(view, "pair", { stack: view.state.stack })) return;
  const { layers } = stackNow(view);
  parts.wide = headWidth(view);
  parts.tall = layers.length > 8 ? 14 : 20;
  const { wide, tall } = parts;
  const weights = floatsOf(view.shown.pair);
  const pen = penOn(view, parts.canvas, LABEL + max(...layers) * wide, layers.length * tall);
  layers.forEach((_, layer) => pen.text(LABEL - 5, layer * tall + tall / 2 + 3, `L${layer}`, { anchor: "end" }));
  eachHead(layers, parts, (x, y, layer, head, index) => {
    const p = weights[index];
    weightCell(view, pen, LABEL + x, y, parts, p, p < 0.095 ? "" : tinyWeight(p));
  });
  const { layer, head } = view.state;
  pen.frame(LABEL + head * wide - 0.5, layer * tall - 0.5, wide, tall, view.colours.ink, 1.5);
  sayStrongest(view, parts.best, weights);
  parts.table.refresh();
}

function sayStrongest(view, best, weights) {
  const places = headPlaces(view);
  const { top } = largest(weights, 3);
  if (!top.length) return setText(best, "Hidden by the mask in every head.");
  const entry = (index) => {
    const { layer, head } = places[index];
    const words = `${headName(layer, head)} ${percentIn(view.shown.pair, weights[index])}`;
    return pill(words, () => choose(view, { layer, head }));
  };
  put(best, h("span.soft", "strongest: "), ...top.flatMap((index) => [entry(index), " "]));
}

function chooseInPair(view, { wide, tall }, event) {
  const layer = floor(event.offsetY / tall);
  const head = floor((event.offsetX - LABEL) / wide);
  if (head >= 0 && head < (stackNow(view).layers[layer] ?? 0)) choose(view, { layer, head });
}

function pairTable(view) {
  const weights = floatsOf(view.shown.pair);
  const text = (p) => weightWords(p, (share) => percentIn(view.shown.pair, share));
  const rows = headPlaces(view).map(({ layer, head }, i) => [headName(layer, head), text(weights[i])]);
  return tableOf("Weight of this query and key", ["layer · head", "weight"], rows);
}
