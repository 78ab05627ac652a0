// What is chosen now, as the panels ask for it; and the one way to change it.

/**
 * @typedef {object} View one screen
 * @property {HTMLElement} root
 * @property {object} loader see loading.js
 * @property {object} meta the scene's description
 * @property {State} state
 * @property {Record<string, {head: object, data: ArrayBuffer, args: object} | null>} shown answers, by slot
 * @property {{query: number, key: number} | null} hover the cell under the pointer
 * @property {{uses: string[], draw: () => void}[]} parts what is redrawn when something it uses changes
 * @property {Set<string>} changed since the last drawing
 * @property {Record<string, number>} widths of panels, CSS pixels
 * @property {Record<string, string>} colours
 * @property {"light" | "dark"} theme
 */

/** A part of the screen that is drawn when one of the named things (words of `uses`) changes. */
function part(view, uses, draw) {
  view.parts.push({ uses: uses.split(" "), draw });
}

/** Says that things have changed; drawing happens once, before the next frame. */
function touch(view, ...names) {
  if (view.changed.size === 0) requestAnimationFrame(() => drawChanged(view));
  for (const name of names) view.changed.add(name);
}

function drawChanged(view) {
  const { changed } = view;
  view.changed = new Set();
  if (!view.meta || view.gone) return;
  for (const { uses, draw } of view.parts) if (uses.some((name) => changed.has(name))) draw();
}

const stackOfMeta = (meta, id) => meta.stacks.find((stack) => stack.id === id);
const stackNow = (view) => stackOfMeta(view.meta, view.state.stack);
const STACK_NAMES = { encoder: "Encoder", decoder: "Decoder", cross: "Cross" };

/** Readable tokens of the side that looks, and of the side that is looked at. */
const queryTokens = (view) => view.tokens[stackNow(view).query_tokens];
const keyTokens = (view) => view.tokens[stackNow(view).key_tokens];
const labelAt = (tokens, place) => tokens[place]?.label ?? String(place);
const queryLabel = (view, place) => labelAt(queryTokens(view), place);
const keyLabel = (view, place) => labelAt(keyTokens(view), place);

const headNow = ({ state: { stack, layer, head } }) => ({ stack, layer, head });
const headName = (layer, head) => `L${layer}·H${head}`;

/** Whether the answer in a slot is the one for what is chosen. */
function isCurrent(view, slot, args) {
  const answer = view.shown[slot];
  return Boolean(answer) && entries(args).every(([name, value]) => answer.args[name] === value);
}

/** The chosen head's picture, or null until it has come. */
const imageNow = (view) => (isCurrent(view, "image", headNow(view)) ? view.shown.image : null);

/** float32 x keys of an answered row, without the first key if so chosen. */
function weightsOf(view, answer) {
  const weights = floatsOf(answer);
  return view.state.sink ? weights : rowWithoutFirst(weights);
}

/** The pinned row, or null until it has come. */
function rowNow(view) {
  return isCurrent(view, "row", { ...headNow(view), query: view.state.query }) ? weightsOf(view, view.shown.row) : null;
}

/** The key that is chosen: by hand, else the strongest of the row. */
function keyNow(view) {
  if (view.state.key !== null) return view.state.key;
  const row = rowNow(view);
  if (row) view.strongest = strongest(row);
  return min(view.strongest ?? 0, stackNow(view).keys - 1);
}

/** The cell that is pointed at, else the chosen one. */
const pointed = (view) => view.hover ?? { query: view.state.query, key: keyNow(view) };

/** Whether the numbers of an answer went through one byte. */
const isRounded = (answer) => Boolean(answer?.head.rounded);
const percentIn = (answer, p) => (isRounded(answer) ? aboutPercent(p) : percent(p));

/** Of the numbers of heads that are no share: their digits and units. */
const UNITS = { entropy: [2, "bits"], effective_keys: [1, "keys"], distance: [1, "tokens"], [CHANGE]: [2, "nats"] };

/** How a head's number is written. */
function statisticText(name, value) {
  if (value == null) return "–";
  const [digits, unit] = UNITS[name] ?? [];
  return unit ? `${signed(value, digits)} ${unit}` : percent(value);
}

const statisticName = (name) => name.replace(/_/g, " ");
const patternName = (view, id) => new Map(view.meta.patterns).get(id) ?? id;

/** What the overview knows of a head: its pattern, and its numbers as they are written; null until it has come. */
function knownOf(view, layer, head) {
  if (!isCurrent(view, "overview", { stack: view.state.stack })) return null;
  const number = (name) => statisticText(name, numberOf(view, name, layer, head));
  return { pattern: patternName(view, view.shown.overview.head.patterns[layer][head]), number };
}

/** Every head of the stack, layer by layer. */
const headPlaces = (view) =>
  stackNow(view).layers.flatMap((heads, layer) => times(heads, (head) => ({ layer, head })));

/** Changes what is chosen; everything else follows. @param {Partial<State>} patch */
function choose(view, patch) {
  const before = view.state;
  const other = patch.stack && patch.stack !== before.stack ? freshStack(view, patch.stack) : null;
  if (other) view.undecided = patch.layer === undefined;
  view.state = clampState({ ...before, ...other, ...patch }, view.meta);
  const names = Object.keys(view.state).filter((name) => view.state[name] !== before[name]);
  if (names.length === 0) return;
  view.hover = null;
  if (names.includes("theme")) applyTheme(view);
  touch(view, ...names);
  view.changedState();
  refresh(view);
}

/** Where another stack begins: at its most telling head, and the last word if it looks back, else the middle. */
function freshStack(view, id) {
  const { causal, queries, query_tokens: side } = stackOfMeta(view.meta, id);
  const word = view.meta.tokens[side].findLastIndex((token) => token.trim() !== "");
  return { query: causal ? max(word, 0) : queries >> 1, key: null, layer: 0, head: 0 };
}

const TELLING = ["induction", "alignment", "duplicate", "previous"];

/** The head with the strongest of the patterns that say most. */
function tellingHead(view, { patterns }) {
  for (const name of TELLING) {
    const found = headPlaces(view).filter(({ layer, head }) => patterns[layer][head] === name);
    const value = ({ layer, head }) => numberOf(view, name, layer, head);
    if (found.length) return found.sort((a, b) => value(b) - value(a))[0];
  }
  return { layer: 0, head: 0 };
}
