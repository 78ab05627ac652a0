// Weights of a and b on one line of places, and their signed difference.

const NO_TOKEN = -2; // the text has no token at this place; -1: the query may not see the key
const MIDDLE = 128; // the code of no difference
const STEPS_OF_DIFFERENCE = 126;

/** Of one head its weights on the line, row by row. @param {0 | 1} side a or b */
function weightsOnLine(given, part, side, [layer, head]) {
  const { queries, keys } = part.tokens[side];
  const size = queries.length * keys.length;
  const before = part.layers[side].slice(0, layer).reduce((sum, heads) => sum + heads, head);
  const start = part.starts[side] + before * size * (given.exact ? 4 : 1);
  const own = given.exact
    ? new Float32Array(given.bytes, start, size)
    : Float32Array.from(new Uint8Array(given.bytes, start, size), decodeWeight);
  const found = new Float32Array(part.queries.length * part.keys.length).fill(NO_TOKEN);
  part.queries.forEach((query, i) => part.keys.forEach((key, j) => {
    if (query[side] === null || key[side] === null) return;
    found[i * part.keys.length + j] = own[query[side] * keys.length + key[side]];
  }));
  return found;
}

/** b minus a; null for a pair that both hide, and in the row of a token that one text does not have. */
function differences(part, a, b) {
  return part.queries.flatMap((query, i) => part.keys.map((_, j) => {
    const at = i * part.keys.length + j;
    const nowhere = query.includes(null) || (a[at] < 0 && b[at] < 0);
    return nowhere ? null : weightOr0(b[at]) - weightOr0(a[at]);
  }));
}

const weightOr0 = (p) => (p < 0 ? 0 : p);

/** Half of what all differences of a row add up to: 0 as it was, 1 altogether elsewhere. */
const movedIn = (row) => row.reduce((sum, d) => sum + abs(d ?? 0), 0) / 2;

/** 0 hidden, 255 not a number, 128 no difference, and from there up or down with the root of it. */
function codeOf(difference) {
  if (difference === null) return HIDDEN;
  if (isNaN(difference)) return NAN_CODE;
  return MIDDLE + Math.sign(difference) * round(STEPS_OF_DIFFERENCE * Math.sqrt(min(abs(difference), 1)));
}

/** Where cells share a pixel, the one farther from no difference shows. */
const farther = (a, b) => a !== HIDDEN && (b === HIDDEN || abs(a - MIDDLE) > abs(b - MIDDLE));

/** The colour of a difference, by its root, as in the picture. */
function differenceColour(difference, theme) {
  if (isNaN(difference)) return NOT_A_NUMBER;
  return signedColour(Math.sign(difference) * Math.sqrt(min(abs(difference), 1)), 1, theme);
}

const differenceTable = lazily((theme) => Uint32Array.from({ length: 256 }, (_, code) => {
  if (code === HIDDEN) return 0;
  const steps = (code - MIDDLE) / STEPS_OF_DIFFERENCE;
  const [red, green, blue] = code === NAN_CODE ? NOT_A_NUMBER : signedColour(steps, 1, theme);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}));

/** A weight in words. */
function weightIn(given, p) {
  if (p === NO_TOKEN) return "–";
  return p < 0 ? "hidden" : given.exact ? percent(p) : aboutPercent(p);
}

/** A difference in words: +12.3, −4.05, in hundredths; "≈" before what was rounded. */
function pointsIn(given, difference) {
  if (difference === null) return "–";
  if (isNaN(difference)) return "NaN";
  const value = 100 * difference;
  const words = signed(value, abs(value) >= 9.95 ? 1 : 2);
  return `${given.exact ? "" : "≈"}${value > 0 ? "+" : ""}${words}`;
}
