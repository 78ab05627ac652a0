// The checker's mistakes as they are made in the formulas of this page: a change is some stages with something else in
// them, under the id of the checker's catalogue. Tests hold every one to the checker's own numbers.

const scoresOf = (f) => ({ scores: (c) => zip(c.roles[0], c.roles[1], f) });
const dividedBy = (size) => ({ scaled: (c) => divided(c, size(c)) });
const rowsOf = (f) => ({ weights: (c) => c.masked.map((s) => s.map(f)) });
const wholeOf = (f) => ({ weights: (c) => c.masked.map(f) });
const filled = (c, f) => c.scaled.map((s) => map(s, (x, i, j) => f(x, c.keep[i][j])));
const hiddenAs = (f) => ({ masked: (c) => (c.keep ? filled(c, f) : c.scaled) });
const usedAs = (f) => ({ used: (c) => c.weights.map((w) => map(w, (x, i, j) => f(x, c, i, j))) });
const projectedBy = (f) => ({ projected: (c) => f(c.sources, [c.wq, c.wk, c.wv]) });
const sourcesAs = (f) => ({ sources: f });

const exps = (row) => row.map(Math.exp);
const raised = (row) => row.map((x) => Math.exp(x - Math.max(...row)));
const shared = (row, total) => row.map((x) => x / total);
const unit = (z) => z.map((row) => shared(row, Math.max(Math.sqrt(sum(row.map((x) => x * x))), 1e-12)));
/** The same numbers, row by row, in another shape. */
const reshaped = (a, rows, columns) => {
  const flat = a.flat();
  return Array.from({ length: rows }, (_, i) => flat.slice(i * columns, (i + 1) * columns));
};
/** Half to even, as NumPy rounds. */
const rounded = (x, digits) => {
  const y = x * 10 ** digits, floor = Math.floor(y), rest = y - floor;
  const whole = rest > 0.5 || (rest === 0.5 && floor % 2) ? floor + 1 : floor;
  return whole / 10 ** digits;
};
const dotOwn = (q, k) => {
  if (q.length !== k.length) throw new Error(`${q.length} queries do not go with ${k.length} keys one by one`);
  return q.map((row, i) => k.map(() => sum(row.map((x, e) => x * k[i][e]))));
};
const perColumn = (s) => {
  const tops = transpose(s).map((column) => Math.max(...column));
  return s.map((row) => row.map((x, j) => Math.exp(x - tops[j]))).map((row) => shared(row, sum(row)));
};
const byRowSums = (s) => {
  const totals = s.map((row) => sum(exps(row)));
  return s.map((row) => row.map((x, j) => Math.exp(x) / totals[j]));
};
const overHeads = (c) => {
  const columns = map(c.masked[0], (_, i, j) => softmax(c.masked.map((s) => s[i][j])));
  return c.masked.map((_, h) => map(columns, (shares) => shares[h]));
};
const keepAs = (see) => ({ keep: (c) => (c.causal ? see(c, ...sizes(c)) : null) });
const headsAs = (how) => ({
  q: (c) => how(c.projected[0], c.heads),
  k: (c) => how(c.projected[1], c.heads),
  v: (c) => how(c.projected[2], c.heads),
});
/** view(H, T, E) without moving the axes: a head then holds pieces of different tokens. */
const unmoved = (z, heads) => {
  const rows = z.length * (z[0].length / heads);
  return Array.from({ length: heads }, (_, h) =>
    reshaped([z.flat().slice(h * rows, (h + 1) * rows)], z.length, z[0].length / heads));
};
/** Head h takes every H-th column. */
const strided = (z, heads) =>
  Array.from({ length: heads }, (_, h) => z.map((row) => row.filter((_, j) => j % heads === h)));
const averaged = (parts) => map(parts[0], (_, i, j) => sum(parts.map((part) => part[i][j])) / parts.length);
const repeatHead = (pick) => ({ merged: (c) => merge(c.result.map(() => pick(c.result))) });

const CHANGES = {
  "qkv-order": projectedBy(([x, y, z], [wq, wk, wv]) => [matmul(x, wq), matmul(y, wv), matmul(z, wk)]),
  "wrong-projection": projectedBy(([x, y, z], [wq, wk]) => [matmul(x, wq), matmul(y, wk), matmul(z, wk)]),
  "weight-transposed": projectedBy((sources, weights) => zip(sources, weights, (z, w) => matmul(z, transpose(w)))),
  "projection-activation": projectedBy((s, w) => zip(s, w, (z, m) => map(matmul(z, m), (x) => Math.max(x, 0)))),

  "keys-not-transposed": scoresOf((q, k) => matmul(q, k)),
  "keys-reshaped": scoresOf((q, k) => matmul(q, reshaped(k, k[0].length, k.length))),
  "qk-swapped": scoresOf((q, k) => matmul(k, transpose(q))),
  "elementwise-product": scoresOf(dotOwn),
  "cosine-scores": scoresOf((q, k) => matmul(unit(q), transpose(unit(k)))),

  "scale-missing": dividedBy(() => 1),
  "scale-dk-not-sqrt": dividedBy(headWidth),
  "scale-inverted": dividedBy((c) => headWidth(c) ** -0.5),
  "scale-seq-len": dividedBy((c) => Math.sqrt(c.k[0].length)),
  "scale-hardcoded": dividedBy(() => 8),
  "scale-fourth-root-once": dividedBy((c) => headWidth(c) ** 0.25),
  "scale-int-sqrt": dividedBy((c) => Math.trunc(Math.sqrt(headWidth(c)))),
  "floor-division": { scaled: (c) => c.scores.map((s) => map(s, (x) => Math.floor(x / Math.sqrt(headWidth(c))))) },
  "scale-after-softmax": { scaled: (c) => c.scores, ...usedAs((w, c) => w / Math.sqrt(headWidth(c))) },
  "scale-d-model": dividedBy((c) => Math.sqrt(c.x[0].length)),

  "causal-reversed": keepAs((c, q, k) => map(triangle(q, k, -1), (seen) => !seen)),
  "causal-diagonal-excluded": keepAs((c, q, k) => triangle(q, k, -1)),
  "causal-one-ahead": keepAs((c, q, k) => triangle(q, k, 1)),
  "mask-not-assigned": { keep: () => null },
  "mask-inverted": keepAs((c, q, k) => map(triangle(q, k), (seen) => !seen)),
  "mask-zero-before-softmax": hiddenAs((x, keep) => (keep ? x : 0)),
  "mask-too-small": hiddenAs((x, keep) => (keep ? x : -5)),
  "mask-sign": hiddenAs((x, keep) => (keep ? x : 1e9)),
  "mask-added-raw": hiddenAs((x, keep) => x + (keep ? 1 : 0)),
  "mask-nan-zero-times-inf": hiddenAs((x, keep) => x + (keep ? 0 : 1) * -Infinity),
  "mask-after-softmax": { masked: (c) => c.scaled, ...usedAs((w, c, i, j) => (!c.keep || c.keep[i][j] ? w : 0)) },

  "softmax-dim-query": wholeOf((s) => transpose(transpose(s).map(softmax))),
  "softmax-global": wholeOf((s) => reshaped([softmax(s.flat())], ...shape(s))),
  "softmax-missing": rowsOf((row) => row),
  "softmax-linear-norm": rowsOf((row) => shared(row, sum(row))),
  "softmax-unnormalised": rowsOf(exps),
  "softmax-twice": rowsOf((row) => softmax(softmax(row))),
  "softmax-sigmoid": rowsOf((row) => row.map((x) => 1 / (1 + Math.exp(-x)))),
  "softmax-log": rowsOf((row) => row.map((x) => x - Math.max(...row) - Math.log(sum(raised(row))))),
  "softmax-keepdims": wholeOf(byRowSums),
  "softmax-plus-one": rowsOf((row) => shared(exps(row), 1 + sum(exps(row)))),
  "softmax-base-two": rowsOf((row) => softmax(row.map((x) => x * Math.LN2))),
  "softmax-max-per-column": wholeOf(perColumn),
  "softmax-overflow": rowsOf((row) => shared(exps(row), sum(exps(row)))),
  "weights-rounded": usedAs((w) => rounded(w, 1)),
  "softmax-dim-heads": { weights: overHeads },

  "weights-transposed": { out: (c) => zip(c.used, c.values, (w, v) => matmul(transpose(w), v)) },
  "value-is-key": { values: (c) => c.roles[1] },
  "value-is-query": { values: (c) => c.roles[0] },
  "average-not-sum": { out: (c) => zip(c.used, c.values, (w, v) => map(matmul(w, v), (x) => x / v.length)) },
  "residual-inside": { result: (c) => zip(c.out, c.q, plus) },

  "heads-split-no-transpose": headsAs(unmoved),
  "heads-dim-order": headsAs(strided),
  "heads-merge-no-transpose": { merged: (c) => reshaped([c.result.flat(2)], c.x.length, c.x[0].length) },
  "heads-averaged": repeatHead(averaged),
  "last-head-only": repeatHead((parts) => parts[parts.length - 1]),
  "head-index-unused": repeatHead((parts) => parts[0]),
  "out-proj-missing": { answer: (c) => c.merged },

  "cross-roles-swapped": sourcesAs((c) => [c.y, c.x, c.x]),
  "cross-uses-self": sourcesAs((c) => [c.x, c.x, c.x]),
  "cross-value-from-decoder": sourcesAs((c) => [c.x, c.y, c.x]),
  "cross-causal": { keep: (c) => triangle(...sizes(c), c.x.length - c.y.length) },
};
