// One picture of queries x keys with its tokens: a canvas of cells, over it the crosshair, pointer and keys.

const PLATE_STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity],
};
const TALLEST_PLATE = 520;
const LEGIBLE = 9; // width of a cell below which no name stands at it

/**
 * @param {string} label for those who do not see it
 * @param {(query: number, key: number) => void} choose
 * @param {(cell: {query: number, key: number} | null) => void} point the pointer is on a cell, or on none
 */
function makePlate(label, choose, point) {
  const cells = h("canvas", { "aria-hidden": "true" });
  const over = h("canvas.over", { "aria-hidden": "true" });
  const field = h("div.field", { role: "application", tabIndex: 0, "aria-roledescription": "attention matrix",
    label: `${label}. Up and down: query. Left and right: key.` }, cells, over);
  const plate = { element: field, cells, over, frame: null, picture: null, here: { query: 0, key: 0 } };
  hear(field, "pointermove", (event) => event.pointerType !== "touch" && point(cellAt(plate, event)));
  hear(field, "pointerleave", () => point(null));
  hear(field, "click", (event) => {
    const cell = cellAt(plate, event);
    if (cell) choose(cell.query, cell.key);
  });
  hear(field, "keydown", (event) => {
    if (!plate.frame || !hasOwn(PLATE_STEPS, event.key)) return;
    event.preventDefault();
    const [below, right] = PLATE_STEPS[event.key].map((places) => places * (event.shiftKey ? 10 : 1));
    const { query, key } = plate.here;
    choose(inside(query + below, plate.queries), inside(key + right, plate.keys));
  });
  return plate;
}

function cellAt({ frame, picture, cells, queries, keys }, event) {
  if (!frame) return null;
  const box = cells.getBoundingClientRect();
  const query = floor(((event.clientY - box.top - frame.y) / frame.h) * picture.rows) * picture.rowStep;
  const key = floor(((event.clientX - box.left - frame.x) / frame.w) * picture.columns) * picture.columnStep;
  return query >= 0 && key >= 0 && query < queries && key < keys ? { query, key } : null;
}

/**
 * @param {object} plate
 * @param {{queryNames: string[], keyNames: string[], codes: Uint8Array, table: Uint32Array,
 *   stronger: (a: number, b: number) => boolean, room?: object, blank?: [number[], number[]]}} shows codes queries x
 *   keys; stronger: which of two is drawn where cells share a pixel; room: names that the axes have room for, if not
 *   these; blank: queries and keys that the text does not have
 */
function drawPlate(plate, shows, colours) {
  const { queryNames, keyNames, codes, table, stronger, room = {}, blank: [noQueries, noKeys] = [[], []] } = shows;
  const width = floor(plate.element.parentElement.clientWidth);
  if (!width) return;
  const [queries, keys, density] = [queryNames.length, keyNames.length, devicePixelRatio || 1];
  const whole = { rows: queries, columns: keys, codes, rowStep: 1, columnStep: 1 };
  const picture = strongest(whole, ...sharing(whole, width, TALLEST_PLATE, density), stronger);
  const figure = { queries, keys, queryNames, keyNames, table };
  const asked = { ...figure, ...room, picture, width, most: TALLEST_PLATE, density };
  let frame = frameOf(asked);
  if (frame.named && frame.w / keys < LEGIBLE) {
    frame = frameOf({ ...asked, queries: queries * NAMED, keys: keys * NAMED }); // too many for names: their places
  }
  assign(plate, { frame, picture, queries, keys });
  const pen = canvasPen(freshCanvas(plate.cells, width, frame.bottom), colours);
  drawHead(pen, frame, picture, figure);
  const { x, y, w, h } = frame;
  const [wide, tall] = [w / picture.columns, h / picture.rows];
  for (const query of noQueries) pen.rect(x, y + floor(query / picture.rowStep) * tall, w, tall, colours.panel);
  for (const key of noKeys) pen.rect(x + floor(key / picture.columnStep) * wide, y, wide, h, colours.panel);
}

/** Cells that share a pixel show their strongest. */
function strongest(picture, below, right, stronger) {
  if (below * right === 1) return picture;
  const [rows, columns] = [ceil(picture.rows / below), ceil(picture.columns / right)];
  const codes = new Uint8Array(rows * columns);
  picture.codes.forEach((code, i) => {
    const at = floor(floor(i / picture.columns) / below) * columns + floor((i % picture.columns) / right);
    if (stronger(code, codes[at])) codes[at] = code;
  });
  return { rows, columns, codes, rowStep: below, columnStep: right };
}

const higher = (a, b) => a > b;

/** The crosshair, which stops short of the cell that it points at. */
function drawCrosshair(plate, { query, key }, colours) {
  const { frame, picture, over, element } = plate;
  if (!frame) return;
  plate.here = { query, key };
  element.dataset.cell = `${query},${key}`;
  const width = parseFloat(plate.cells.style.width);
  const pen = canvasPen(freshCanvas(over, width, frame.bottom), colours);
  const [x, y] = [across(frame, picture, key), down(frame, picture, query)];
  const wide = max(frame.w / picture.columns / 2, 3.5) + 1.5;
  const tall = max(frame.h / picture.rows / 2, 3.5) + 1.5;
  pen.line(frame.x, y, max(frame.x, x - wide), y, colours.query);
  pen.line(min(x + wide, frame.x + frame.w), y, frame.x + frame.w, y, colours.query);
  pen.line(x, frame.y, x, max(frame.y, y - tall), colours.key);
  pen.line(x, min(y + tall, frame.y + frame.h), x, frame.y + frame.h, colours.key);
  pen.frame(x - wide, y - tall, 2 * wide, 2 * tall, colours.page, 3);
  pen.frame(x - wide, y - tall, 2 * wide, 2 * tall, colours.ink, 1.5);
}
