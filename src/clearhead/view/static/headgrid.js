// Layers down, heads across: real buttons, of which one is in the tab order; arrows move and choose.

const HEAD_STEPS = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity], PageUp: [-Infinity, 0], PageDown: [Infinity, 0],
};

/**
 * @param {number[]} layers how many heads each has
 * @param {(layer: number, head: number) => void} choose
 * @param {[number, number, number]} sizes of a button, for up to 6 heads, up to 12, and more
 */
function headGrid(layers, choose, sizes = [38, 27, 24]) {
  const most = max(...layers);
  const wide = sizes[most > 12 ? 2 : most > 6 ? 1 : 0];
  const cells = layers.map((heads, layer) =>
    times(heads, (head) => button("", { role: "gridcell", tabIndex: -1 }, () => choose(layer, head))));
  const top = h("div", { role: "row" }, h("span.corner", { role: "columnheader" }, h("span.unseen", "layer")),
    ...times(most, (head) => h("span.number", { role: "columnheader" }, `H${head}`)));
  const rows = cells.map((row, layer) =>
    h("div", { role: "row" }, h("span.corner", { role: "rowheader" }, `L${layer}`), ...row));
  const element = h("div.headgrid", { role: "grid", label: "Heads: layers down, heads across",
    style: { "--heads": most, "--wide": `${wide}px` } }, top, ...rows);
  const grid = { element, cells, here: [0, 0], width: 28 + most * (wide + 2) };
  hear(element, "keydown", (event) => {
    if (!hasOwn(HEAD_STEPS, event.key)) return;
    event.preventDefault();
    const [down, right] = HEAD_STEPS[event.key];
    const layer = inside(grid.here[0] + down, layers.length);
    const head = inside(grid.here[1] + right, layers[layer]);
    choose(layer, head);
    cells[layer][head].focus();
  });
  return grid;
}

/** Marks the chosen head. @param {(layer: number, head: number) => string} label what a button is called */
function markHeads(grid, layer, head, label) {
  grid.here = [layer, head];
  grid.cells.forEach((row, i) => row.forEach((cell, j) => {
    const chosen = i === layer && j === head;
    setAttribute(cell, "aria-selected", String(chosen));
    setAttribute(cell, "tabindex", chosen ? 0 : -1);
    setAttribute(cell, "aria-label", label(i, j));
  }));
}
