// A reader among the cells: pointing, walking with arrow keys, opening, and typing a number.

const REST = 50; // ms that the pointer rests on a cell before it is meant
const WALK = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -99], End: [0, 99],
};

/** The listeners of a board. */
function boardKeys(board) {
  const of = (then) => (event) => {
    const cell = cellOf(event.target);
    if (cell) then(cell, event);
  };
  return {
    pointerover: (event) => rest(board, event),
    pointerleave: () => clearTimeout(board.resting),
    focusin: of((cell) => board.act.choose(cell, false)),
    click: of((cell) => pressed(board, cell)),
    keydown: of((cell, event) => walk(board, cell, event)),
  };
}

function cellOf(target) {
  const td = target.closest?.("[data-cell]");
  if (!td) return null;
  const [name, i, j] = td.dataset.cell.split(".");
  return { name, i: Number(i), j: Number(j) };
}

/** Passing over cells on the way to somewhere else chooses nothing. */
function rest(board, event) {
  const cell = cellOf(event.target);
  clearTimeout(board.resting);
  if (!cell || event.pointerType === "touch" || board.input) return;
  board.resting = setTimeout(() => board.act.choose(cell, true), REST);
}

/** A "?" opens its step, a given number can be changed, any other is looked at. */
function pressed(board, cell) {
  const matrix = board.view.matrices.get(cell.name);
  if (!matrix.open) board.act.open(matrix.at, cell);
  else if (matrix.edit) edit(board, cell);
}

/** Arrow keys walk inside a matrix; Enter opens or changes; a digit starts typing. */
function walk(board, cell, event) {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const matrix = board.view.matrices.get(cell.name), move = WALK[event.key];
  if (move) {
    const [i, j] = [cell.i, cell.j].map((x, n) => Math.min(Math.max(x + move[n], 0), matrix.size[n] - 1));
    board.cells.get(cellKey({ name: cell.name, i, j })).focus();
  } else if (["Enter", " ", "F2"].includes(event.key)) pressed(board, cell);
  else if (matrix.edit && matrix.open && /^[-−.,\d]$/.test(event.key)) edit(board, cell, event.key);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** A number under the pen: what is typed counts at once; Escape brings the old number back. */
function edit(board, cell, begin) {
  if (board.input) return;
  const td = board.cells.get(cellKey(cell)), matrix = board.view.matrices.get(cell.name);
  const old = String(matrix.values[cell.i][cell.j]), label = placed(matrix, cell.i, cell.j);
  const input = h("input", { value: begin ?? old, inputmode: "decimal", autocomplete: "off", "aria-label": label });
  const take = () => setAttribute(input, "aria-invalid", board.act.typed(cell, input.value, false) ? null : "true");
  const close = (text) => {
    if (board.input !== input) return;
    const focused = input.getRootNode().activeElement === input;
    board.input = null;
    input.remove();
    board.act.typed(cell, text, true);
    if (focused) td.focus();
  };
  const keys = {
    Enter: () => close(input.value), Escape: () => close(old),
    ArrowUp: () => nudge(input, 0.1, take), ArrowDown: () => nudge(input, -0.1, take),
  };
  listen(input, { input: take, blur: () => close(input.value), keydown: (event) => typing(event, keys[event.key]) });
  board.input = input;
  td.replaceChildren(input);
  input.focus();
  if (begin === undefined) input.select();
  else take();
}

function typing(event, does) {
  event.stopPropagation();
  if (!does) return;
  event.preventDefault();
  does();
}

function nudge(input, by, take) {
  const { value } = readNumber(input.value);
  if (value === undefined) return;
  input.value = String(Math.round((value + by) * 1e6) / 1e6);
  take();
}
