// Which head is chosen, switched off, or moved by an ablation; what is said of it; moving among the buttons.

/** From here on a head's weights count as moved: mean total variation. */
const MOVED = 0.05;

/** The chosen stack's head among those that are switched off. */
const isAblated = ({ state: { stack, ablated } }, layer, head) =>
  ablated.find((one) => one.stack === stack && one.layer === layer && one.head === head);

/** A switched-off head is struck through; one that changed has a dot. */
function drawMarks(view, { wide, tall }, pen) {
  const moved = view.shown.effect?.head.moved[view.state.stack];
  eachHead(stackNow(view).layers, { wide, tall }, (x, y, layer, head) => {
    if (isAblated(view, layer, head)) {
      pen.line(x + 2, y + tall - 3, x + wide - 3, y + 2, view.colours.page, 5);
      pen.line(x + 2, y + tall - 3, x + wide - 3, y + 2, view.colours.bad, 2.5);
    } else if ((moved?.[layer]?.[head] ?? 0) > MOVED) {
      pen.disc(x + wide - 6, y + 5, 4.5, view.colours.page);
      pen.disc(x + wide - 6, y + 5, 3.2, view.colours.query);
    }
  });
}

function markHead(view, parts) {
  const { layer, head } = view.state;
  parts.buttons.forEach((row, y) => row.forEach((cell, x) => {
    const here = y === layer && x === head;
    setAttribute(cell, "aria-selected", here ? "true" : null);
    setAttribute(cell, "tabindex", here ? 0 : -1);
    setAttribute(cell, "aria-label", headLabel(view, y, x));
  }));
  sayHead(view, parts);
}

/** "Layer 8 head 4: induction, entropy 1.80 bits" */
function headLabel(view, layer, head) {
  const known = knownOf(view, layer, head);
  const words = known ? `: ${known.pattern}, entropy ${known.number("entropy")}` : "";
  return `Layer ${layer} head ${head}${words}${isAblated(view, layer, head) ? ", switched off" : ""}`;
}

/** One sentence on the head under the pointer, else the chosen one. */
function sayHead(view, { said, hovered }) {
  const { layer, head } = hovered ?? view.state;
  const known = knownOf(view, layer, head);
  if (!known) return setText(said, "…");
  const numbers = statisticsOf(view.meta, view.state.stack).map((name) => `${statisticName(name)} ${known.number(name)}`);
  put(said, h("strong", `${headName(layer, head)} — ${known.pattern}`), h("br"),
    h("span.soft.small", numbers.join(" · ")));
}

function headsTable(view) {
  const names = statisticsOf(view.meta, view.state.stack);
  const rows = headPlaces(view).map(({ layer, head }) => {
    const { pattern, number } = knownOf(view, layer, head);
    return [headName(layer, head), pattern, ...names.map(number)];
  });
  return tableOf("Means over all queries", ["layer · head", "pattern", ...names.map(statisticName)], rows);
}

const GRID_STEPS = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity], PageUp: [-Infinity, 0], PageDown: [Infinity, 0],
};

/** Arrows move and choose: one button of the grid is in the tab order. */
function moveInGrid(view, parts, event) {
  const step = stepOf(event, GRID_STEPS);
  if (!step) return;
  const layer = clamp(view.state.layer + step[0], parts.buttons.length - 1);
  const head = clamp(view.state.head + step[1], parts.buttons[layer].length - 1);
  choose(view, { layer, head });
  markHead(view, parts);
  parts.buttons[layer][head].focus();
}
