// The matrices of the lesson, each with the way to it: where its numbers are in the context of `attend`, which stages
// make them, and the arithmetic of any one number, written with references to the numbers that it comes from.

const DECIMALS = 3; // as the lesson prints

/** How many decimals show every number of a matrix exactly, at most 3. */
function decimalsOf(matrix) {
  const numbers = matrix.flat().filter(Number.isFinite);
  for (let digits = 0; digits < DECIMALS; digits++) {
    if (numbers.every((x) => Math.abs(x * 10 ** digits - Math.round(x * 10 ** digits)) < 1e-9)) return digits;
  }
  return DECIMALS;
}

/** A number as it is printed: a true minus sign, no minus before a zero, NaN and ∞ by name. */
function figure(x, digits = DECIMALS) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Math.abs(x) >= 1e5) return x.toExponential(1).replace("+", "").replace("-", "−");
  const text = x.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A number in running arithmetic: as short as 3 decimals allow, in brackets where a minus could be misread. */
const short = (x) => figure(x, decimalsOf([[x]]));
const bracketed = (text, first) => (text.startsWith("−") && !first ? `(${text})` : text);

/** A number of another matrix, which can be pointed at. */
const ref = (name, i, j, role = "in") => ({ name, i, j, role });

/** The same, not at the beginning: a minus needs brackets. */
const inner = (reference) => ({ ...reference, inner: true });

/** a₁·b₁ + a₂·b₂ + ... of pairs of references. */
function products(pairs) {
  return pairs.flatMap(([a, b], n) => [...(n ? [" + ", inner(a)] : [a]), "·", inner(b)]);
}

const nth = (j) => String(j + 1);
const quoted = (token) => ({ token });

/** A matrix of what is typed: embeddings or weights. */
function typed(name, title, note, { rows = null, at = 0, role = "", of, words }) {
  const why = (c, i, j) => ({ words: [...words(i, j), " Press Enter or type to change it."], parts: [] });
  return { name, title, note, rows, at, role, edit: true, stages: [], of, why };
}

const PROJECTIONS = {
  Q: { role: "q", what: "Query", note: "looks for", by: "Wq" },
  K: { role: "k", what: "Key", note: "is found by", by: "Wk" },
  V: { role: "v", what: "Value", note: "hands over", by: "Wv" },
};

/** Q, K or V: rows of the matrix `from` (called `source` on the screen) times columns of its weights. */
function projected(name, from, { rows, at, source = from, ...more }) {
  const { role, what, note, by } = PROJECTIONS[name];
  return {
    name, title: name, note, rows, at, role, stages: ["sources", "projected", role], ...more,
    of: (c) => merge(c[role]),
    why: (c, i, j) => ({
      words: [`${what} of `, quoted(rows[i]), `, number ${nth(j)}: its row of ${source} × column ${nth(j)} of ${by}.`],
      parts: products(c.wq.map((_, d) => [ref(from, i, d), ref(by, d, j, role)])),
    }),
  };
}

/** What belongs to one head: names end with its number where there are several, columns of Q, K, V start at h·E. */
const headed = (name, h, heads) => (heads > 1 ? `${name}${h}` : name);

/** Query i times key j of head h, number by number. */
function fit(c, h, i, j) {
  const column = (e) => h * headWidth(c) + e;
  return products(c.q[h][0].map((_, e) => [ref("Q", i, column(e), "q"), ref("K", j, column(e), "k")]));
}

function scoresMatrix({ rows, columns, at }) {
  return {
    name: "scores", title: "scores", note: "Q Kᵀ", rows, columns, at, stages: ["roles", "scores"],
    of: (c) => c.scores[0],
    why: (c, i, j) => ({
      words: ["How well the query of ", quoted(rows[i]), " fits the key of ", quoted(columns[j]), "."],
      parts: fit(c, 0, i, j),
    }),
  };
}

const root = (c) => short(Math.sqrt(headWidth(c)));

function scaledMatrix({ rows, columns, at }) {
  return {
    name: "scaled", title: "scaled", note: "÷ √E", rows, columns, at, stages: ["scaled"],
    of: (c) => c.scaled[0],
    why: (c, i, j) => ({
      words: [`The score divided by the square root of the width of a key, √${headWidth(c)} = ${root(c)}.`],
      parts: [ref("scores", i, j), ` ÷ ${root(c)}`],
    }),
  };
}

/** Both at once, for one of two heads. */
function headScores(h, { rows, columns, at }) {
  return {
    name: `scaled${h}`, title: "scaled", note: `head ${nth(h)}`, rows, columns, at, hatched: true,
    stages: ["roles", "scores", "scaled", "keep", "masked"], of: (c) => c.masked[h],
    why: (c, i, j) => c.keep && !c.keep[i][j]
      ? { words: [quoted(columns[j]), " comes after ", quoted(rows[i]), ": hidden, −∞."], parts: [] }
      : {
        words: [`Head ${nth(h)}, query of `, quoted(rows[i]), ", key of ", quoted(columns[j]), `, ÷ √${headWidth(c)}.`],
        parts: ["(", ...fit(c, h, i, j), `) ÷ ${root(c)}`],
      },
  };
}

function maskedMatrix({ rows, columns, at }) {
  return {
    name: "masked", title: "masked", note: "future hidden", rows, columns, at, hatched: true,
    stages: ["keep", "masked"], of: (c) => c.masked[0],
    why: (c, i, j) => ({
      words: c.keep === null
        ? ["No mask: every token may look at every token, and the score stays."]
        : c.keep[i][j]
          ? [quoted(columns[j]), " is not after ", quoted(rows[i]), ": it may be seen, and the score stays."]
          : [quoted(columns[j]), " comes after ", quoted(rows[i]), ": hidden. The score becomes −∞, which is not 0."],
      parts: [ref("scaled", i, j), " → "],
    }),
  };
}

/** Softmax over a row of `from`. */
function weightsMatrix(h, heads, { rows, columns, at, from, note = "softmax" }) {
  return {
    name: headed("weights", h, heads), title: "weights", note, rows, columns, at,
    sums: true, shaded: true, hatched: true, stages: ["weights", "used"], of: (c) => c.used[h],
    why: (c, i, j) => {
      const row = c.masked[h][i], total = sum(row.map(Math.exp));
      if (row.every((x) => x === -Infinity)) {
        return { words: [quoted(rows[i]), " may see nothing: zeros, not 0 ÷ 0."], parts: [] };
      }
      const power = (k) => ["e", { up: ref(from, i, k) }];
      const quotient = `${short(Math.exp(row[j]))} ÷ ${short(total)}`;
      const all = row.flatMap((_, k) => [...(k ? [" + "] : []), ...power(k)]);
      return {
        words: ["How far ", quoted(rows[i]), " looks at ", quoted(columns[j]), ": its share of e^score."],
        parts: [...power(j), " ÷ (", ...all, ")", total > 0 && total < 1e9 ? ` = ${quotient}` : ""],
      };
    },
  };
}

/** Values mixed by the weights. */
function outputMatrix(h, heads, { rows, keys, at, note = "weights V" }) {
  const column = (c, j) => h * c.v[h][0].length + j;
  return {
    name: headed("output", h, heads), title: "output", note, rows, at, stages: ["values", "out", "result"],
    of: (c) => c.result[h],
    why: (c, i, j) => ({
      words: ["The new ", quoted(rows[i]), `, number ${nth(column(c, j))}: that of every value, mixed by the weights.`],
      parts: products(keys.map((_, k) => [ref(headed("weights", h, heads), i, k), ref("V", k, column(c, j), "v")])),
    }),
  };
}

/** Heads side by side. */
function joinedMatrix({ rows, at }) {
  return {
    name: "joined", title: "concat", note: "heads side by side", rows, at, stages: ["merged"], divided: true,
    of: (c) => c.merged,
    why: (c, i, j) => {
      const h = Math.floor(j / c.v[0][0].length);
      return {
        words: [`Copied from head ${nth(h)}: each head fills its own columns.`],
        parts: [ref(`output${h}`, i, j - h * c.v[0][0].length, "v"), " → "],
      };
    },
  };
}

function answerMatrix({ rows, at }) {
  return {
    name: "answer", title: "output", note: "concat Wo", rows, at, stages: ["answer"], of: (c) => c.answer,
    why: (c, i, j) => ({
      words: ["The new ", quoted(rows[i]), `, number ${nth(j)}: both heads, mixed by column ${nth(j)} of Wo.`],
      parts: products(c.merged[0].map((_, d) => [ref("joined", i, d), ref("Wo", d, j, "v")])),
    }),
  };
}
