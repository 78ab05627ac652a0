// The matrices on the screen: tables of cells that are painted anew after every change.

const cellKey = ({ name, i, j }) => `${name}.${i}.${j}`;
const indices = (n) => Array.from({ length: n }, (_, i) => i);
const LONGEST = 9; // letters of a token on the side of a matrix
const MANY = 4; // columns that all matrices may have and still stand in one line

/**
 * @param {{choose(cell, hover), open(step, cell), typed(cell, text, done), controls(names)}} act
 * @returns {{element, below, draw(view), focus(cell), point(cell, on)}} below: a matrix that belongs to no step
 */
function makeBoard(act) {
  const element = h("div", { class: "board" }), below = h("div", { class: "below" });
  const board = { element, below, act, cells: new Map(), view: null, built: "", input: null, resting: 0 };
  for (const part of [element, below]) listen(part, boardKeys(board));
  return {
    element, below,
    draw: (view) => drawBoard(board, view),
    focus: (cell) => board.cells.get(cellKey(cell))?.focus(),
    point: (cell, on) => board.cells.get(cellKey(cell))?.classList.toggle("pointed", on),
  };
}

function drawBoard(board, view) {
  board.view = view;
  const shapes = [...view.matrices.values()].map(({ name, size, note }) => [name, size, note]);
  const built = JSON.stringify([view.page.name, view.page.joints, shapes]);
  if (built !== board.built) build(board, view);
  board.built = built;
  const chosen = inside(view, view.state.cell), { refs } = chosen ? explained(view, chosen) : { refs: [] };
  const marks = new Map(refs.map((part) => [cellKey(part), part.role])), near = nearby(view);
  board.element.style.setProperty("--label", `${longestLabel(view)}ch`);
  for (const matrix of view.matrices.values()) {
    const mine = chosen?.name === matrix.name ? chosen : null;
    paint(board, view, matrix, { chosen: mine, marks, near: near.has(matrix.name) });
  }
}

/** Tables for these shapes. What had the focus has it still, if it is still there. */
function build(board, view) {
  const focused = board.element.getRootNode().activeElement;
  board.cells.clear();
  const most = Math.max(...view.page.columns.flat().map(({ name }) => (name ? view.matrices.get(name).size[1] : 0)));
  board.element.className = classes({ board: true, [view.page.name]: true, many: most > MANY });
  board.element.replaceChildren(...layout(board, view));
  board.below.replaceChildren(...(view.page.below ?? []).map(({ name }) => table(board, name)));
  const again = focused?.dataset?.cell ? board.cells.get(focused.dataset.cell) : focused;
  if (again?.isConnected && again !== board.element.getRootNode().activeElement) again.focus();
}

function layout(board, view) {
  const item = ({ name, controls }) => (name ? table(board, name) : board.act.controls(controls));
  const columns = view.page.columns.map((column) => h("div", { class: "column" }, ...column.map(item)));
  const joints = view.page.joints.map((sign) => h("div", { class: "joint" }, sign));
  return columns.flatMap((column, n) => (n ? [joints[n - 1], column] : [column]));
}

function table(board, name) {
  const matrix = board.view.matrices.get(name), [rows, columns] = matrix.size, last = matrix.sums || matrix.verdict;
  const cell = (i, j) => {
    const td = h("td", { data: { cell: cellKey({ name, i, j }) }, tabIndex: -1 });
    board.cells.set(td.dataset.cell, td);
    return td;
  };
  const side = (tag, props) => matrix.rows && h(tag, props);
  const cells = (i) => indices(columns).map((j) => cell(i, j));
  const row = (i) => [side("th", { scope: "row" }), ...cells(i), last && h("td", { class: "sum" })];
  const corner = { class: "corner" }, over = indices(columns).map(() => h("th", { scope: "col" }));
  const head = matrix.columns && h("thead", {}, h("tr", {}, side("td", corner), ...over, last && h("td", corner)));
  const body = h("tbody", {}, ...indices(rows).map((i) => h("tr", {}, ...row(i))));
  const title = h("b", { class: matrix.role }, matrix.title), note = h("span", { class: "soft" }, ` ${matrix.note}`);
  const grid = h("table", { role: "grid", "aria-label": `${matrix.title}: ${matrix.note}` }, head, body);
  return h("figure", {}, h("figcaption", {}, title, note), grid);
}

function longestLabel(view) {
  const labels = [...view.matrices.values()].flatMap(({ rows }) => rows ?? []);
  return Math.min(LONGEST, Math.max(...labels.map((token) => Array.from(showToken(token)).length)));
}

function paint(board, view, matrix, { chosen, marks, near }) {
  const [rows, columns] = matrix.size, td = (i, j) => board.cells.get(cellKey({ name: matrix.name, i, j }));
  const stop = chosen ?? { i: 0, j: 0 }, whole = td(0, 0).closest("figure");
  const kinds = { closed: !matrix.open, far: !near, typed: matrix.edit, [`role-${matrix.role}`]: matrix.role };
  const now = matrix.at === view.step && !matrix.edit, wide = !matrix.edit && (matrix.digits > 1 || !matrix.role);
  whole.className = classes({ ...kinds, now, wide });
  for (const i of indices(rows)) {
    for (const j of indices(columns)) {
      paintCell(td(i, j), view, matrix, i, j, marks.get(cellKey({ name: matrix.name, i, j })));
      td(i, j).classList.toggle("chosen", chosen?.i === i && chosen.j === j);
      setAttribute(td(i, j), "aria-selected", chosen?.i === i && chosen.j === j ? "true" : null);
      td(i, j).tabIndex = stop.i === i && stop.j === j ? 0 : -1;
    }
  }
  paintSides(whole, view, matrix, chosen);
}

const classes = (kinds) => Object.keys(kinds).filter((name) => kinds[name]).join(" ");

function paintCell(td, view, matrix, i, j, mark) {
  const { open } = matrix, x = matrix.values?.[i]?.[j], text = open ? printed(matrix, view, i, j) : "?";
  const wrong = open && changed(matrix, i, j), masked = open && hidden(matrix, view, i, j);
  const second = matrix.divided && j === matrix.size[1] / 2;
  td.className = classes({ [`from from-${mark}`]: mark, wrong, masked, nan: text === "NaN", second });
  const lit = matrix.shaded && open && !masked && Number.isFinite(x);
  const colour = lit ? weightColour(x, "linear", view.theme) : null;
  td.style.setProperty("background-color", lit ? css(colour) : "");
  td.style.setProperty("color", lit ? inkOn(colour) : "");
  if (!td.querySelector("input")) setText(td, text);
  const number = open ? text.replace("−", "minus ") : `not worked out yet, step ${matrix.at + 1}`;
  const unseen = masked ? ", hidden by the mask" : "";
  const mistaken = wrong ? `, changed by the mistake, right is ${printed(matrix, view, i, j, matrix.right)}` : "";
  setAttribute(td, "aria-label", `${placed(matrix, i, j)}: ${number}${unseen}${mistaken}`);
}

function paintSides(whole, view, matrix, chosen) {
  const label = (th, token, lit) => {
    const text = showToken(token);
    setText(th, shorten(text, LONGEST));
    setAttribute(th, "title", Array.from(text).length > LONGEST ? text : null);
    th.className = lit ? "lit" : "";
  };
  const named = (tokens, n) => tokens[n] ?? nth(n);
  whole.querySelectorAll("th[scope=row]").forEach((th, i) => label(th, named(matrix.rows, i), chosen?.i === i));
  whole.querySelectorAll("th[scope=col]").forEach((th, j) => label(th, named(matrix.columns, j), chosen?.j === j));
  whole.querySelectorAll("td.sum").forEach((td, i) => {
    const shown = matrix.open && matrix.values;
    setText(td, !shown ? "" : matrix.verdict ? verdictOf(matrix.values[i]) : sumOf(matrix.values[i]));
    td.classList.toggle("bad", td.textContent.endsWith("✗"));
  });
}

const sumOf = (weights) => `Σ ${figure(sum(weights))} ${Math.abs(sum(weights) - 1) < 1e-6 ? "✓" : "✗"}`;

const verdictOf = (differences) => (differences.every((x) => x < 1e-9) ? "same ✓" : "differs");
