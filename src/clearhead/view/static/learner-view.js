// What the screen shows of a state: every matrix with its numbers, right and with the chosen mistake, and where any
// number comes from. Nothing here touches the page.

const GIVEN = {
  attention: (s) => ({ x: s.X, wq: s.Wq, wk: s.Wk, wv: s.Wv, causal: s.causal }),
  heads: (s) => ({ x: s.X, wq: s.Wq, wk: s.Wk, wv: s.Wv, wo: s.Wo, heads: 2, causal: s.causal }),
  cross: (s) => ({ x: s.Y, y: s.X, wq: s.Wq, wk: s.Wk, wv: s.Wv }),
};
const PAGES = { attention: attentionPage, heads: headsPage, order: orderPage, cross: crossPage };

/**
 * @returns {{state, page, step, c, right, change, broken, matrices: Map<string, object>}} c: the context with the
 * mistake, right: without; change: the mistake's stages or null; broken: what is said of it
 */
function seen(state, lesson) {
  const ordered = state.page === "order", given = ordered ? null : GIVEN[state.page](state);
  const right = ordered ? orderContexts(state) : attend(given);
  const change = state.mistake && !ordered ? CHANGES[state.mistake] : null;
  const c = change ? attend(given, change) : right;
  const page = PAGES[state.page](state, lesson, c);
  const step = Math.min(state.steps[state.page], page.steps.length - 1);
  const broken = change && page.mistakes.find(({ id }) => id === state.mistake);
  const view = { state, page, step, c, right, change, broken };
  const all = [...page.columns.flat(), ...(page.below ?? [])].filter((item) => item.name);
  return { ...view, matrices: new Map(all.map((matrix) => [matrix.name, filledIn(matrix, view)])) };
}

/** A matrix with its numbers; `values` is null where they could not be computed. */
function filledIn(matrix, { c, right, change, step }) {
  const values = orNull(() => matrix.of(c)), good = orNull(() => matrix.of(right));
  const touched = change !== null && matrix.stages.some((stage) => Object.hasOwn(change, stage));
  const digits = values ? decimalsOf(values) : 0;
  return { ...matrix, values, right: good, digits, touched, open: step >= matrix.at, size: shape(values ?? good) };
}

function orNull(make) {
  try {
    return make() ?? null;
  } catch {
    return null;
  }
}

/** Whether the mistake has changed a number. */
function changed(matrix, i, j) {
  return matrix.values !== matrix.right && !same(matrix.values?.[i]?.[j], matrix.right?.[i]?.[j]);
}

/** Whether the mask, as it should be, hides this pair. */
const hidden = (matrix, view, i, j) => Boolean(matrix.hatched && view.right.keep && view.right.keep[i]?.[j] === false);

/** A cell's number as printed. */
function printed(matrix, view, i, j, values = matrix.values) {
  const x = values?.[i]?.[j];
  if (x === undefined || x === null) return "–";
  if (x === 0 && hidden(matrix, view, i, j)) return "0";
  return matrix.edit && matrix.digits > 1 ? short(x) : figure(x, matrix.digits); // typed: as short as it was
}

/** What a step opens, and what that is computed from: all that a narrow screen shows. */
function nearby(view) {
  const opened = [...view.matrices.values()].filter(({ at }) => at === view.step);
  const corner = ({ name }) => explained(view, { name, i: 0, j: 0 }).refs;
  const sources = opened.filter(({ values }) => values).flatMap(corner);
  return new Set([...opened, ...sources].map(({ name }) => name));
}

/** A cell that exists on this page, or null. */
function inside(view, cell) {
  const matrix = cell && view.matrices.get(cell.name);
  return matrix && cell.i < matrix.size[0] && cell.j < matrix.size[1] ? cell : null;
}

/**
 * Where a cell's number comes from.
 * @returns {{words, parts, refs}} words and parts: text, {token}, {name, i, j, role, text}, {up: part} or {result};
 * refs: the cells among them
 */
function explained(view, cell) {
  const matrix = view.matrices.get(cell.name), { i, j } = cell;
  if (!matrix.open) {
    return told([`Not worked out yet. What do you expect? Click, or press Enter, for step ${matrix.at + 1}.`]);
  }
  if (!matrix.values) return told([`It does not run: ${view.c.failed?.words ?? "a step before it has failed"}.`]);
  if (matrix.touched && changed(matrix, i, j)) return toldOfMistake(view, matrix, i, j);
  const { words, parts } = matrix.why(view.c, i, j);
  const end = parts.length ? [joint(parts), { result: printed(matrix, view, i, j) }] : [];
  return told(words, [...linked(view, parts), ...end]);
}

function toldOfMistake(view, matrix, i, j) {
  const wrong = { result: printed(matrix, view, i, j) };
  if (matrix.right?.[i]?.[j] === undefined) return told(["The mistake is here."], [wrong]);
  const { parts } = matrix.why(view.right, i, j), good = printed(matrix, view, i, j, matrix.right);
  const rule = parts.length ? [...linked(view, parts, true), joint(parts)] : [];
  return told(["The mistake is here. Right would be:"], [...rule, good, "; with the mistake: ", wrong]);
}

const joint = (parts) => (String(parts[parts.length - 1]).endsWith("→ ") ? "" : " = ");

function told(words, parts = []) {
  return { words, parts, refs: parts.map((part) => part.up ?? part).filter((part) => part.name) };
}

/** Each reference with the text of its number; plain text where its matrix is on another page. */
function linked(view, parts, right = false) {
  const one = (part, n) => {
    if (part.up) return { up: typeof part.up === "string" ? part.up : one(part.up, 0) };
    if (part.name === undefined) return part;
    const matrix = view.matrices.get(part.name), first = !part.inner || n === 0;
    if (!matrix) return bracketed(short(view.state[part.name][part.i][part.j]), first);
    const text = printed(matrix, view, part.i, part.j, right ? matrix.right : matrix.values);
    return { ...part, text: bracketed(text, first) };
  };
  return parts.map(one);
}

/** The same in words, for a screen reader. */
function spoken(view, cell) {
  const { words, parts } = explained(view, cell);
  const plain = (part) => {
    if (typeof part === "string") return part.replaceAll("·", " times ").replaceAll("÷", "divided by");
    if (part.up) return ` to the power ${plain(part.up)} `;
    return part.token !== undefined ? showToken(part.token) : (part.text ?? part.result);
  };
  return [...words, " ", ...parts].map(plain).join("").trim();
}

/** "weights, row sat, column cat": where a cell is, in words. */
function placed(matrix, i, j) {
  const named = (tokens, n) => (tokens ? showToken(tokens[n] ?? nth(n)) : nth(n));
  const head = /head \d$/.test(matrix.note) ? `, ${matrix.note}` : "";
  return `${matrix.title}${head}, row ${named(matrix.rows, i)}, column ${named(matrix.columns, j)}`;
}
