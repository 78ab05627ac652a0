// The page of order and positions: the same tokens in two orders, side by side.

/** The text in the reader's order, with positions or without, and beside it in the first order. */
function orderContexts(state) {
  const given = (order) => {
    const rows = permuted(state.X, order), table = sinusoids(rows.length, 4);
    return { rows, table, x: state.positions ? plus(rows, table) : rows, wq: state.Wq, wk: state.Wk, wv: state.Wv };
  };
  const first = attend(given(state.tokens.map((_, i) => i))), moved = attend(given(state.order));
  const back = state.tokens.map((_, i) => moved.answer[state.order.indexOf(i)]);
  return { ...moved, first, back, gap: map(back, (x, i, j) => Math.abs(x - first.answer[i][j])) };
}

/** sin or cos of position times rate (Vaswani et al. 2017, section 3.5). */
function positionsMatrix(name, note, rows, dim, of) {
  const pair = (j) => Math.floor(j / 2), wave = (j) => (j % 2 ? "cos" : "sin");
  const columns = indices(dim).map((j) => `${wave(j)} ${pair(j)}`);
  const why = (c, i, j) => ({
    words: [`Position × rate, under ${wave(j)}. Rate: 1 ÷ 10000^(${2 * pair(j)}/${dim}) = ${short(rate(j, dim))}.`],
    parts: [`${wave(j)}(${i} · ${short(rate(j, dim))}) = ${wave(j)}(${short(i * rate(j, dim))})`],
  });
  return { name, title: "positions", note, rows, columns, at: 0, stages: [], of, why };
}

/** Token and place, added: what attention is given. */
function placedTokens(t) {
  const added = (i, j) => [ref("X", i, j), " + ", inner(ref("P", i, j))];
  return {
    name: "sum", title: "X + positions", note: "what is attended to", rows: t, at: 0, stages: [], of: (c) => c.x,
    why: (c, i, j) => ({ words: ["The token and its place, added."], parts: added(i, j) }),
  };
}

/** The output in the first order of the tokens: put back, as it was, and how far both are apart. */
function compared(state) {
  const rows = state.tokens, token = (i) => quoted(rows[i]), stages = [];
  return [
    {
      name: "back", title: "put back", note: "rows in the first order", rows, at: 2, stages, of: (c) => c.back,
      why: (c, i, j) => ({
        words: ["The row of ", token(i), ", moved back to where it was."],
        parts: [ref("output", state.order.indexOf(i), j), " → "],
      }),
    },
    {
      name: "first", title: "first order", note: "never shuffled", rows, at: 3, stages, of: (c) => c.first.answer,
      why: (c, i, j) => ({ words: [`Number ${nth(j)} of the output of `, token(i), ", never shuffled."], parts: [] }),
    },
    {
      name: "gap", title: "difference", note: state.positions ? "order counts" : "only rounding", rows, at: 3, stages,
      verdict: true, of: (c) => c.gap,
      why: (c, i, j) => ({
        words: ["How far the two outputs of ", token(i), " are apart."],
        parts: ["|", ref("back", i, j), " − ", inner(ref("first", i, j)), "|"],
      }),
    },
  ];
}

/** The same arithmetic with plain numbers: what they come from is not on this page. */
function unlinked(matrix) {
  const number = (c, { name, i, j }) => (name === "V" ? c.v[0][i][j] : c.masked[0][i][j]);
  const plain = (c, part) => {
    if (part.up) return { up: short(number(c, part.up)) };
    return part.name === "V" ? bracketed(short(number(c, part)), false) : part;
  };
  const why = (c, i, j) => {
    const { words, parts } = matrix.why(c, i, j);
    return { words, parts: parts.map((part) => plain(c, part)) };
  };
  return { ...matrix, why };
}

const BAG = "Without positions each token gets the same output wherever it stands: attention sees a bag of tokens.";
const ORDERED = "With positions added a token at another place is another vector: the outputs differ. Order counts.";

function orderPage(state, lesson) {
  const t = permuted(state.tokens, state.order), on = state.positions;
  const weights = weightsMatrix(0, 1, { rows: t, columns: t, at: 1, from: "masked" });
  const output = outputMatrix(0, 1, { rows: t, keys: t, at: 1 });
  const shuffled = [{ controls: ["order", "positions"] }, embedding("X", t, "X", "in your order", (c) => c.rows)];
  const table = positionsMatrix("P", "rows stay in place", t.map((_, i) => `at ${i}`), 4, (c) => c.table);
  const attended = [weights, output].map(unlinked);
  const lessons = positionsMatrix("table", "the lesson's 5 × 8", [..."01234"], 8, () => sinusoids(5, 8));
  const columns = [shuffled, ...(on ? [[table, placedTokens(t)]] : []), attended, compared(state)];
  return {
    name: "order", title: "Order and positions", mistakes: [], columns, below: [lessons],
    steps: [
      { title: "Shuffle", words: "Put the tokens in another order. Their numbers stay; only rows change places." },
      { title: "Attend", words: "The weights and outputs of the shuffled text." },
      { title: "Put back", words: "The rows of the output, back in the first order." },
      { title: "Compare", words: on ? ORDERED : BAG },
    ],
    joints: on ? ["+", "attend", "put back"] : ["attend", "put back"],
    code: {
      "sinusoidal_positions.column": 0, "sinusoidal_positions.rate": 0, "sinusoidal_positions.angle": 0,
      "sinusoidal_positions.return": 0, "attention.weights": 1, "attention.return": 1,
    },
  };
}
