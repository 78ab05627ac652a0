// The chosen head as a figure for a paper: SVG with vector axes (and cells, if they are few), or PNG at twice the size.

const FIGURE = 640; // width, CSS pixels

/** Draws the whole figure; returns its height. @param {(height: number) => object} makePen */
function drawFigure(view, makePen) {
  const figure = figureOf(view);
  const picture = wantedPicture(view, 1, 1);
  const frame = frameOf({ ...figure, picture, width: FIGURE, most: FIGURE, density: 1, top: 34 });
  const row = rowNow(view);
  const lines = captionLines(view);
  const y = frame.bottom + (row ? BARS + 26 : 0);
  const height = ceil(y + 15 * lines.length + 50);
  const pen = makePen(height);
  pen.rect(0, 0, FIGURE, height, view.colours.page);
  pen.text(13, 22, figureTitle(view), { fill: view.colours.ink, size: 14, bold: true });
  drawHead(pen, frame, picture, figure);
  if (row) drawBars(pen, frame, picture, frame.bottom + 4, row);
  const { query } = view.state;
  const name = `row of query ${query} ${shorten(queryLabel(view, query), 20)}`;
  if (row) pen.text(frame.x, frame.bottom + BARS + 18, name);
  drawColourBar(pen, 14, y + 6, view);
  pen.text(176, y + 15, `weight, ${SCALE_NAMES[view.state.scale]} scale; hatched: hidden by the mask`);
  lines.forEach((line, i) => pen.text(13, y + 44 + 15 * i, line));
  return height;
}

function figureTitle(view) {
  const { stack, layer, head } = view.state;
  return `${STACK_NAMES[stack]} · layer ${layer} · head ${head}`;
}

function captionLines(view) {
  const { head } = view.shown.image;
  const { queries, keys } = stackNow(view);
  const name = view.meta.title || view.meta.model;
  return [`${name}: ${count(queries)} queries × ${count(keys)} keys`, head.text, ...choiceNotes(view)]
    .map((line) => shorten(showToken(line), 110));
}

/** @returns {string} the figure as SVG; text stands in it as text, escaped by the serialiser */
function svgOf(view) {
  const said = [svg("title", {}, figureTitle(view)), svg("desc", {}, captionLines(view).join(" "))];
  const root = svg("svg", { xmlns: SVG, width: FIGURE }, ...said);
  const height = drawFigure(view, () => svgPen(root, view.colours));
  fill(root, { height, viewBox: `0 0 ${FIGURE} ${height}` }, []);
  return new XMLSerializer().serializeToString(root);
}

function pngOf(view) {
  const canvas = h("canvas");
  drawFigure(view, (height) => canvasPen(freshCanvas(canvas, FIGURE, height, 2), view.colours));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const exportName = (view, ending) => {
  const { stack, layer, head } = view.state;
  return fileName([view.meta.title || view.meta.model || "clearhead", stack, `layer${layer}`, `head${head}`], ending);
};

async function exportFigure(view, kind) {
  if (!imageNow(view)) return complain(view, "The picture is not there yet.");
  const blob = kind === "svg" ? new Blob([svgOf(view)], { type: "image/svg+xml" }) : await pngOf(view);
  download(blob, exportName(view, kind));
  announce(view, `${kind.toUpperCase()} saved.`);
}
