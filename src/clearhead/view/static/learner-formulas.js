// Attention in the open, stage by stage, in float64. The stages and their names are those of the checker, so that a
// mistake is a stage with something else in it. Matrices are lists of rows; a stage "per head" is a list of matrices.
// Letters: H heads, Q queries, K keys, T tokens, D model width, E head width. Source: Vaswani et al. 2017, section 3.2.

const shape = (a) => [a.length, a[0].length];
const transpose = (a) => a[0].map((_, j) => a.map((row) => row[j]));
const map = (a, f) => a.map((row, i) => row.map((x, j) => f(x, i, j)));
const sum = (row) => row.reduce((total, x) => total + x, 0);
const zip = (a, b, f) => a.map((x, i) => f(x, b[i]));
const plus = (a, b) => map(a, (x, i, j) => x + b[i][j]);

/** [n m] @ [m p]. Throws, as NumPy does, when the inner sizes differ. */
function matmul(a, b) {
  const [n, m] = shape(a), [rows, p] = shape(b);
  if (m !== rows) throw new Error(`${n} × ${m} times ${rows} × ${p} does not fit: ${m} is not ${rows}`);
  return a.map((row) => b[0].map((_, j) => sum(row.map((x, k) => x * b[k][j]))));
}

/** exp(x) / sum exp(x); the maximum is subtracted first. A row that is all −∞ may see nothing: zeros. */
function softmax(row) {
  const top = Math.max(...row);
  const raised = row.map((x) => Math.exp(x - (top === -Infinity ? 0 : top)));
  const total = sum(raised);
  return raised.map((x) => (total > 0 ? x / total : 0));
}

/** [T D] -> H matrices [T E]: each head its own neighbouring columns. */
function split(z, heads) {
  const width = z[0].length / heads;
  return Array.from({ length: heads }, (_, h) => z.map((row) => row.slice(h * width, (h + 1) * width)));
}

/** H matrices [T E] -> [T D], side by side. */
const merge = (parts) => parts[0].map((_, t) => parts.flatMap((part) => part[t]));

/** [Q K]: a query sees keys up to its own position (`shift` further); the queries are the last ones. */
const triangle = (queries, keys, shift = 0) =>
  Array.from({ length: queries }, (_, i) =>
    Array.from({ length: keys }, (_, j) => j <= i + keys - queries + shift));

const hide = (scores, keep, instead = -Infinity) => map(scores, (x, i, j) => (keep[i][j] ? x : instead));
const headWidth = (c) => c.q[0][0].length;
const sizes = (c) => shape(c.scaled[0]);
const divided = (c, by) => c.scores.map((s) => map(s, (x) => x / by));

/** From two lists of tokens to the output. Each stage reads what the stages before it have made. */
const STAGES = {
  sources: (c) => [c.x, c.y, c.y],
  projected: (c) => [matmul(c.sources[0], c.wq), matmul(c.sources[1], c.wk), matmul(c.sources[2], c.wv)],
  q: (c) => split(c.projected[0], c.heads),
  k: (c) => split(c.projected[1], c.heads),
  v: (c) => split(c.projected[2], c.heads),
  roles: (c) => [c.q, c.k, c.v],
  scores: (c) => zip(c.roles[0], c.roles[1], (q, k) => matmul(q, transpose(k))),
  scaled: (c) => divided(c, Math.sqrt(headWidth(c))),
  keep: (c) => (c.causal ? triangle(...sizes(c)) : null),
  masked: (c) => (c.keep ? c.scaled.map((s) => hide(s, c.keep)) : c.scaled),
  weights: (c) => c.masked.map((s) => s.map(softmax)),
  used: (c) => c.weights,
  values: (c) => c.roles[2],
  out: (c) => zip(c.used, c.values, matmul),
  result: (c) => c.out,
  merged: (c) => merge(c.result),
  answer: (c) => (c.wo ? matmul(c.merged, c.wo) : c.merged),
};

/**
 * The context after all stages, `change` standing in for those it names. What does not fit stops there: `failed` is
 * then {stage, words}.
 * @param {{x, y?, wq, wk, wv, wo?, heads?, causal?}} given
 */
function attend(given, change = {}) {
  const c = { y: given.x, heads: 1, causal: false, ...given };
  for (const name of Object.keys(STAGES)) {
    try {
      c[name] = (Object.hasOwn(change, name) ? change[name] : STAGES[name])(c);
    } catch (error) {
      c.failed = { stage: name, words: error.message };
      break;
    }
  }
  return c;
}

/** 1 / 10000^(2 floor(j / 2) / D): how fast column j turns (section 3.5). */
const rate = (j, dim) => 10000 ** (-(2 * Math.floor(j / 2)) / dim);

/** [count dim]: sine on even, cosine on odd columns. */
const sinusoids = (count, dim) =>
  Array.from({ length: count }, (_, t) =>
    Array.from({ length: dim }, (_, j) => (j % 2 ? Math.cos : Math.sin)(t * rate(j, dim))));

/** Where each row of a permuted list came from: order[i] is the old place of what now stands at i. */
const permuted = (rows, order) => order.map((place) => rows[place]);

/** What must hold of the weights of one head, with the number that shows it. `keep` is the mask as it should be. */
function properties(weights, keep) {
  const cells = weights.flat();
  const off = weights.map(sum).find((total) => !(Math.abs(total - 1) < 1e-6));
  const negative = cells.find((w) => w < 0);
  const leaks = keep ? weights.flatMap((row, i) => row.filter((w, j) => !keep[i][j] && w !== 0)) : [];
  return [
    { name: "sum", holds: off === undefined, shows: off },
    { name: "negative", holds: negative === undefined, shows: negative },
    { name: "hidden", holds: leaks.length === 0, shows: leaks[0], skipped: !keep },
  ];
}

/** The same to rounding. NaN equals NaN. */
const same = (a, b) => a === b || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) < 1e-9;
