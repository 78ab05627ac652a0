// What is chosen, as one short text: the end of the address, or a notebook's `state` trait. Nothing in it is trusted.

/**
 * @typedef {object} State
 * @property {string} stack "encoder" | "decoder" | "cross"
 * @property {number} layer from 0
 * @property {number} head from 0
 * @property {number} query place of the token that looks
 * @property {number | null} key place of the token that is looked at; null: the strongest
 * @property {string} scale one of SCALES
 * @property {string} theme one of THEMES
 * @property {string} statistic "picture", "pattern", or one of the scene's
 * @property {number} thick weights above it are drawn three cells wide; 0: none
 * @property {boolean} sink whether the first key is counted
 * @property {{stack: string, layer: number, head: number, how: "zero" | "mean"}[]} ablated
 */

const STACKS = ["encoder", "decoder", "cross"];
const THICKEN = [0, 5, 10, 25];
const ABLATIONS = { z: "zero", m: "mean" };
const MOST_ABLATED = 64;

const START = Object.freeze({
  stack: "decoder", layer: 0, head: 0, query: 0, key: null, scale: "sqrt", theme: "auto",
  statistic: "picture", thick: 0, sink: true, ablated: Object.freeze([]),
});

const integer = (text) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined);
const oneOf = (allowed) => (value) => (allowed.includes(value) ? value : undefined);

/** Of each part of a state: its letter, and how its text is read; undefined is not understood. */
const FIELDS = {
  stack: ["s", oneOf(STACKS)], layer: ["l", integer], head: ["h", integer], query: ["q", integer], key: ["k", integer],
  scale: ["c", oneOf(SCALES)],
  theme: ["t", oneOf(THEMES)],
  statistic: ["o", (text) => (/^[a-z_ ]{1,40}$/.test(text) ? text : undefined)],
  thick: ["x", (text) => oneOf(THICKEN)(integer(text))],
  sink: ["n", (text) => (text === "1" ? false : undefined)],
  ablated: ["ab", parseAblated],
};

/** The part of a state that a text names; whatever is not understood is left out. @returns {Partial<State>} */
function parseState(text) {
  const given = new URLSearchParams(String(text).replace(/^#/, ""));
  if ((given.get("v") ?? "1") !== "1") return {};
  const read = ([name, [letter, understand]]) => [name, given.has(letter) ? understand(given.get(letter)) : undefined];
  return fromEntries(entries(FIELDS).map(read).filter(([, value]) => value !== undefined));
}

/** "d8.3z,c2.7m" → the heads. */
function parseAblated(text) {
  const parts = text.split(",", MOST_ABLATED).map((part) => /^([edc])(\d{1,4})\.(\d{1,4})([zm])$/.exec(part));
  return parts.filter(Boolean).map(([, letter, layer, head, how]) => ({
    stack: STACKS.find((stack) => stack[0] === letter),
    layer: Number(layer),
    head: Number(head),
    how: ABLATIONS[how],
  }));
}

/** The text of a state; from the theme on, what is as it starts is left out. */
function formatState(state) {
  const ablated = state.ablated.map(({ stack, layer, head, how }) => `${stack[0]}${layer}.${head}${how[0]}`).join();
  const texts = { ...state, sink: state.sink ? "" : 1, ablated, thick: state.thick || "", key: state.key ?? "" };
  for (const name of ["theme", "statistic"]) if (state[name] === START[name]) texts[name] = "";
  const pairs = entries(FIELDS).map(([name, [letter]]) => [letter, texts[name]]);
  const said = pairs.filter(([, text]) => text !== "").map(([letter, text]) => `${letter}=${encodeURIComponent(text)}`);
  return ["v=1", ...said].join("&");
}

const clamp = (value, most) => min(max(value, 0), max(most, 0));

/** The nearest state that the scene has. */
function clampState(state, meta) {
  const present = meta.stacks.filter((stack) => !stack.missing);
  const stack = present.find(({ id }) => id === state.stack) ?? present[present.length - 1];
  const layer = clamp(state.layer, stack.layers.length - 1);
  const has = ({ id, layers }, head) => id === head.stack && head.head < (layers[head.layer] ?? 0);
  const exists = (head) => meta.can.ablate && present.some((one) => has(one, head));
  const statistics = ["picture", "pattern", ...statisticsOf(meta, stack.id)];
  return {
    ...state,
    stack: stack.id,
    layer,
    head: clamp(state.head, stack.layers[layer] - 1),
    query: clamp(state.query, stack.queries - 1),
    key: state.key === null ? null : clamp(state.key, stack.keys - 1),
    statistic: statistics.includes(state.statistic) ? state.statistic : "picture",
    ablated: state.ablated.every(exists) ? state.ablated : state.ablated.filter(exists),
  };
}
