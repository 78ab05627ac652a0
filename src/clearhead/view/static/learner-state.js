// What the reader has chosen and typed, as plain data; every change gives a new state, or one sentence that refuses it.
// The address of the page holds the state, so that a link, a reload and the back button lose nothing.

const LESSON_PAGES = ["attention", "heads", "order", "cross"];
const MOST = { number: 1000, tokens: 6, name: 24, steps: 6 };
const TYPED = ["X", "Wq", "Wk", "Wv", "Wo", "Y"];

const copied = (rows) => rows.map((row) => [...row]);

/** Where everybody begins: the lesson's own numbers. */
function startState(lesson) {
  const { X, Wq, Wk, Wv, Wo } = lesson;
  return {
    page: "attention", steps: { attention: 0, heads: 0, order: 0, cross: 0 }, causal: false, mistake: "", cell: null,
    order: [2, 0, 1], positions: false, theme: "auto",
    tokens: [...lesson.tokens], target: [...lesson.target.tokens],
    X: copied(X), Y: copied(lesson.target.Y), Wq: copied(Wq), Wk: copied(Wk), Wv: copied(Wv), Wo: copied(Wo),
  };
}

/** The lesson's numbers and tokens again; page, step and theme stay. */
function resetState(state, lesson) {
  return { ...startState(lesson), page: state.page, steps: state.steps, theme: state.theme };
}

/** {value} or {refused}: "-0.5", "−0.5", "0,5" and "1e-2" are numbers. */
function readNumber(text) {
  const plain = text.trim().replace("−", "-").replace(",", ".");
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) {
    const shown = text.trim() === "" ? "An empty cell" : `“${shorten(showToken(text.trim()), 20)}”`;
    return { refused: `${shown} is not a number; write one such as −0.5.` };
  }
  const value = Number(plain);
  if (Math.abs(value) > MOST.number) {
    return { refused: `${shorten(plain, 12)} is too large; stay between −${MOST.number} and ${MOST.number}.` };
  }
  return { value };
}

/** {value} or {refused}. */
function readName(text) {
  const length = Array.from(text).length;
  if (text.trim() === "") return { refused: "A token needs at least one letter; the old name stays." };
  if (length > MOST.name) return { refused: `${length} letters are too many, ${MOST.name} fit; the old name stays.` };
  return { value: text };
}

/** The state with one number changed. */
function withNumber(state, name, i, j, value) {
  return { ...state, [name]: state[name].map((row, n) => (n === i ? row.map((x, m) => (m === j ? value : x)) : row)) };
}

/** `list` is "tokens" (rows of X) or "target" (rows of Y). */
const rowsBehind = (list) => (list === "tokens" ? "X" : "Y");

function withName(state, list, i, name) {
  return { ...state, [list]: state[list].map((old, n) => (n === i ? name : old)) };
}

/** One token more, {state} or {refused}. */
function withToken(state, list, lesson) {
  const tokens = state[list], rows = rowsBehind(list);
  if (tokens.length >= MOST.tokens) return { refused: `${MOST.tokens} tokens are the most that this page can show.` };
  const spare = lesson.spare.find(({ token }) => !tokens.includes(token)) ?? lesson.spare[0];
  const order = list === "tokens" ? [...state.order, tokens.length] : state.order;
  const more = { [list]: [...tokens, spare.token], [rows]: [...state[rows], [...spare.row]] };
  return { state: { ...state, ...more, order, cell: null } };
}

/** One token less, {state} or {refused}. */
function withoutToken(state, list, i) {
  if (state[list].length === 1) return { refused: "One token has to stay." };
  const rows = rowsBehind(list), left = (items) => items.filter((_, n) => n !== i);
  const order = list === "tokens" ? state.order.filter((n) => n !== i).map((n) => (n > i ? n - 1 : n)) : state.order;
  return { state: { ...state, [list]: left(state[list]), [rows]: left(state[rows]), order, cell: null } };
}

/** The token at `place` of the shuffled text goes to place `to`. */
function withMoved(state, place, to) {
  const order = state.order.filter((_, n) => n !== place);
  order.splice(to, 0, state.order[place]);
  return { ...state, order };
}

/** A mistake needs its mask, and shows best when every step is open. */
function withMistake(state, id, page) {
  const broken = page.mistakes.find((mistake) => mistake.id === id);
  if (!broken) return { ...state, mistake: "" };
  const steps = { ...state.steps, [state.page]: page.steps.length - 1 };
  return { ...state, mistake: id, steps, causal: state.causal || broken.step === "masked" };
}

const writeRows = (rows) => rows.map((row) => row.join(",")).join(";");
const equalRows = (a, b) => writeRows(a) === writeRows(b);

/** The state as the part of an address behind #; what is as in the lesson is left out. */
function writeAddress(state, lesson) {
  const start = startState(lesson);
  const words = new URLSearchParams({ v: "1", p: state.page, s: state.steps[state.page] + 1 });
  if (state.causal) words.set("c", "1");
  if (state.mistake) words.set("m", state.mistake);
  if (state.positions) words.set("n", "1");
  if (state.order.join("") !== start.order.join("")) words.set("o", state.order.join(""));
  if (state.cell) words.set("x", `${state.cell.name}.${state.cell.i}.${state.cell.j}`);
  if (state.theme !== "auto") words.set("t", state.theme);
  for (const list of ["tokens", "target"]) {
    if (state[list].join("\n") !== start[list].join("\n")) words.set(list, JSON.stringify(state[list]));
  }
  for (const name of TYPED) if (!equalRows(state[name], start[name])) words.set(name, writeRows(state[name]));
  return words.toString();
}

/** The state that an address means. Whatever is not a state is left out, and the lesson's stands there instead. */
function readAddress(address, lesson) {
  const words = new URLSearchParams(address.replace(/^#/, "").slice(0, 8000)), state = startState(lesson);
  if (words.get("v") !== "1") return state;
  const one = (name, allowed, otherwise) => (allowed.includes(words.get(name)) ? words.get(name) : otherwise);
  state.page = one("p", LESSON_PAGES, state.page);
  state.theme = one("t", THEMES, state.theme);
  state.causal = words.get("c") === "1";
  state.positions = words.get("n") === "1";
  for (const list of ["tokens", "target"]) Object.assign(state, readRows(words, list, state));
  for (const name of ["Wq", "Wk", "Wv", "Wo"]) state[name] = readMatrix(words.get(name), 4) ?? state[name];
  const step = Number(words.get("s"));
  state.steps[state.page] = Number.isInteger(step) ? Math.min(Math.max(step - 1, 0), MOST.steps) : 0;
  state.mistake = one("m", (lesson.mistakes[state.page] ?? []).map(({ id }) => id), "");
  const all = state.tokens.map((_, i) => i), order = [...(words.get("o") ?? "")].map(Number);
  state.order = all.every((i) => order.includes(i)) && order.length === all.length ? order : fittedOrder(all);
  const cell = /^([A-Za-z]{1,10}\d?)\.(\d)\.(\d)$/.exec(words.get("x") ?? "");
  state.cell = cell && { name: cell[1], i: Number(cell[2]), j: Number(cell[3]) };
  return state;
}

/** The last token first: the lesson's (2, 0, 1) for three. */
const fittedOrder = (all) => [...all.slice(-1), ...all.slice(0, -1)];

/** Names and rows of a list of tokens, together or not at all. */
function readRows(words, list, state) {
  const rows = readMatrix(words.get(rowsBehind(list)), null) ?? state[rowsBehind(list)];
  const names = readNames(words.get(list)) ?? state[list];
  return names.length === rows.length ? { [list]: names, [rowsBehind(list)]: rows } : {};
}

function readNames(text) {
  try {
    const names = JSON.parse(text ?? "null");
    const good = (name) => typeof name === "string" && "value" in readName(name);
    return Array.isArray(names) && names.length >= 1 && names.length <= MOST.tokens && names.every(good) ? names : null;
  } catch {
    return null;
  }
}

/** Rows of four numbers, as many as there should be (or 1 to 6); null for anything else. */
function readMatrix(text, count) {
  if (!text) return null;
  const rows = text.split(";").map((row) => row.split(",").map((word) => readNumber(word).value));
  const fits = count === null ? rows.length <= MOST.tokens : rows.length === count;
  return fits && rows.every((row) => row.length === 4 && row.every((x) => x !== undefined)) ? rows : null;
}
