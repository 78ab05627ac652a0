// What a film holds: at each step, of each sentence and each kind of attention, the weights and numbers of all heads.

const STATISTIC_WORDS = {
  entropy: "entropy", effective_keys: "effective keys", max: "largest weight",
  distance: "mean distance", previous: "previous token", induction: "induction",
  duplicate: "duplicate token", sink: "first token", self: "itself", alignment: "alignment",
};
/** Statistics that are a share of attention, 0 to 1. */
const isShare = (name) => !["entropy", "effective_keys", "distance"].includes(name);
const statisticWord = (name) => STATISTIC_WORDS[name] ?? name;
const unitOf = (name) => ({ entropy: " bits", distance: " tokens" })[name] ?? "";
const statisticNumber = (name, value) =>
  value === null ? "–" : isShare(name) ? percent(value) : value.toFixed(value < 9.95 ? 2 : 1) + unitOf(name);

/** @returns {object} the part of the sentence at the step that the state names */
const partAt = (given, { text, part }, step) => given.texts[text].frames[step].parts[part];
const partNames = (given, text) => Object.keys(given.texts[text].frames[0].parts);
const layersOf = (part) => part.patterns.map((row) => row.length);

/** Of one head its weights, row by row, as floats or as codes. */
function rawWeights(given, part, layer, head) {
  const size = part.queries.length * part.keys.length;
  const before = layersOf(part).slice(0, layer).reduce((sum, heads) => sum + heads, head);
  const start = part.start + before * size * (given.exact ? 4 : 1);
  return given.exact ? new Float32Array(given.bytes, start, size) : new Uint8Array(given.bytes, start, size);
}

const codesOf = (given, raw) => (given.exact ? Uint8Array.from(raw, encodeWeight) : raw);
const weightAt = (given, raw, at) => (given.exact ? raw[at] : decodeWeight(raw[at]));

/** A weight in words. */
function weightWord(given, p) {
  if (p < 0) return "hidden";
  return given.exact ? `${percent(p)} (${p.toPrecision(6)})` : aboutPercent(p);
}

/** The place of the step nearest to a number of steps. */
const nearestStep = (steps, wanted) =>
  steps.reduce((best, step, i) => (abs(step - wanted) < abs(steps[best] - wanted) ? i : best), 0);

/** Of every head the statistic at each step: by layer and head, null where there is none. */
function curvesOf(given, state, name) {
  const frames = given.steps.map((_, step) => partAt(given, state, step).statistics[name] ?? []);
  return frames[0].map((row, layer) => row.map((_, head) => frames.map((frame) => frame[layer]?.[head] ?? null)));
}
