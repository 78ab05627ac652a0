// Pointing at and moving in the matrix.

function listenToField(view, parts) {
  const { field } = parts;
  hear(field, "pointermove", (event) => event.pointerType !== "touch" && pointAt(view, cellUnder(view, parts, event)));
  hear(field, "pointerleave", () => pointAt(view, null));
  hear(field, "click", (event) => {
    const cell = cellUnder(view, parts, event);
    if (cell) choose(view, cell);
  });
  hear(field, "keydown", (event) => moveInField(view, event));
}

/** The query and the key under the pointer, or null beside the cells. */
function cellUnder(view, { frame, picture }, event) {
  if (!frame) return null;
  const row = floor(((event.offsetY - frame.y) / frame.h) * picture.rows);
  const column = floor(((event.offsetX - frame.x) / frame.w) * picture.columns);
  if (row < 0 || column < 0 || row >= picture.rows || column >= picture.columns) return null;
  const { queries, keys } = stackNow(view);
  return { query: clamp(row * picture.rowStep, queries - 1), key: clamp(column * picture.columnStep, keys - 1) };
}

/** The pointer rests on a cell: what follows it is asked for once a frame at most. */
function pointAt(view, cell) {
  const { hover } = view;
  if (cell === hover || (cell && hover && cell.query === hover.query && cell.key === hover.key)) return;
  view.hover = cell;
  touch(view, "hover");
  if (view.pointing) return;
  view.pointing = true;
  requestAnimationFrame(() => {
    view.pointing = false;
    askPointed(view);
  });
}

function askPointed(view) {
  if (view.gone) return;
  const { query } = pointed(view);
  want(view, "pointedRow", "row", { ...headNow(view), query }, view.hover ? 20 : 0);
  askTile(view);
}

/** [queries, keys] that an arrow moves. */
const FIELD_STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-20, 0], PageDown: [20, 0], Home: [0, -Infinity], End: [0, Infinity],
};

function moveInField(view, event) {
  const step = stepOf(event, FIELD_STEPS);
  if (!step) return;
  const [down, right] = step.map((places) => places * (event.shiftKey ? 10 : 1));
  if (down) choose(view, { query: view.state.query + down });
  else choose(view, { key: clamp(keyNow(view) + right, stackNow(view).keys - 1) });
}

/** Chooses the next largest key of the row. */
function nextLargest(view) {
  const row = rowNow(view);
  if (!row) return;
  const { top } = largest(row, 20);
  if (top.length) choose(view, { key: top[(top.indexOf(keyNow(view)) + 1) % top.length] });
}
