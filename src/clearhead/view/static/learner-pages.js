// The four pages: which matrices stand where, the steps in which they open, and what is said at each.
// A page is {name, title, steps: [{title, words}], given, columns: [[matrix or {op}]], mistakes, code: {name: step}}.

function embedding(name, tokens, title, note, pick = (c) => c.x) {
  return typed(name, title, note, {
    rows: tokens, of: pick, words: (i, j) => ["Number ", nth(j), " of ", quoted(tokens[i]), "."],
  });
}

/** Wq, Wk, Wv or Wo: learned in a model, typed here. */
function weight(name, role, makes, at = 1) {
  return typed(name, name, makes, {
    at, role, of: (c) => c[name.toLowerCase()],
    words: (i, j) => [`${name}, row ${nth(i)}, column ${nth(j)}: a number that a model would learn.`],
  });
}

/** Whose rows Q, K and V have: a mistake may mix up the two texts. */
function labelled(c, mine, others) {
  return (c.sources ?? [c.x, c.y, c.y]).map((source) => (source === c.x ? mine : others));
}

function attentionPage(state, lesson, c) {
  const t = state.tokens, pairs = { rows: t, columns: t }, said = lesson.words;
  return {
    name: "attention", title: "One head, step by step", mistakes: lesson.mistakes.attention,
    steps: [
      { title: "X", words: `${said.X} Change any number and watch everything follow.` },
      { title: "Q, K, V", words: [said.Q, said.K, said.V].join(" ") },
      { title: "Scores", words: said.scores },
      { title: "÷ √E", words: said.scaled_scores },
      { title: "Mask", words: "A decoder must not see the future: hidden scores become −∞. Without a mask they stay." },
      { title: "Softmax", words: `${said.weights} ${said.row_sums}` },
      { title: "Output", words: said.output },
    ],
    columns: [
      [embedding("X", t, "X", "a row per token"), { controls: ["tokens", "causal"] }],
      [weight("Wq", "q", "makes queries"), weight("Wk", "k", "makes keys"), weight("Wv", "v", "makes values")],
      [
        projected("Q", "X", { rows: t, at: 1 }),
        projected("K", "X", { rows: t, at: 1 }),
        projected("V", "X", { rows: t, at: 1 }),
      ],
      [
        scoresMatrix({ ...pairs, at: 2 }),
        scaledMatrix({ ...pairs, at: 3 }),
        { ...maskedMatrix({ ...pairs, at: 4 }), note: c.keep === null ? "no mask" : "future hidden" },
      ],
      [
        weightsMatrix(0, 1, { ...pairs, at: 5, from: "masked" }),
        outputMatrix(0, 1, { rows: t, keys: t, at: 6 }),
      ],
    ],
    joints: ["× W", "=", "Q Kᵀ", "softmax"],
    code: {
      "example.X": 0, "example.return": 1, "attention.scores": 2, "attention.scaled": 3, "causal_mask.return": 4,
      "attention.mask": 4, "attention.weights": 5, "softmax.top": 5, "softmax.raised": 5, "softmax.total": 5,
      "softmax.return": 5, "attention.return": 6,
    },
  };
}

function headsPage(state, lesson) {
  const t = state.tokens, heads = [0, 1], pairs = { rows: t, columns: t };
  const cut = { rows: t, at: 0, divided: true, note: "head 1 | head 2" };
  return {
    name: "heads", title: "Two heads and Wo", mistakes: lesson.mistakes.heads,
    steps: [
      { title: "Split", words: "The same Q, K and V, cut in two: each head owns two neighbouring columns, E = 2." },
      {
        title: "Attend",
        words: "Each head has its own queries and keys, so each looks elsewhere. Scores are divided by √2.",
      },
      { title: "Mix", words: "Each head mixes its own values and writes two numbers per token." },
      { title: "Concat", words: "The heads side by side: as wide as the input again." },
      {
        title: "× Wo",
        words: "One last matrix mixes what the heads have found. What goes in comes out in the same shape.",
      },
    ],
    columns: [
      [embedding("X", t, "X", "a row per token"), { controls: ["tokens", "causal"] }],
      [projected("Q", "X", cut), projected("K", "X", cut), projected("V", "X", cut)],
      heads.map((h) => headScores(h, { ...pairs, at: 1 })),
      heads.map((h) => weightsMatrix(h, 2, { ...pairs, at: 1, from: `scaled${h}`, note: `head ${nth(h)}` })),
      heads.map((h) => outputMatrix(h, 2, { rows: t, keys: t, at: 2, note: `head ${nth(h)}` })),
      [joinedMatrix({ rows: t, at: 3 }), weight("Wo", "v", "mixes the heads", 4), answerMatrix({ rows: t, at: 4 })],
    ],
    joints: ["× W", "Q Kᵀ", "softmax", "× V", "concat"],
    code: {
      "multi_head_attention.split": 0, "multi_head_attention.out": 1, "attention.scores": 1, "attention.scaled": 1,
      "attention.weights": 1, "attention.return": 2, "multi_head_attention.joined": 3, "multi_head_attention.return": 4,
    },
  };
}

function crossPage(state, lesson, c) {
  const [queries, keys, values] = labelled(c, state.target, state.tokens), pairs = { rows: queries, columns: keys };
  return {
    name: "cross", title: "Cross-attention", mistakes: lesson.mistakes.cross,
    steps: [
      {
        title: "Two texts",
        words: "The encoder has read one text (y), the decoder has written another (x), not as long.",
      },
      { title: "Q, K, V", words: "Queries come from the decoder, keys and values from the encoder." },
      { title: "Scores", words: "A row per written token, a column per read token: the matrix need not be square." },
      { title: "÷ √E", words: lesson.words.scaled_scores },
      {
        title: "Softmax",
        words: "Each row mixes the whole source: nothing in it is future, so no triangle hides anything.",
      },
      { title: "Output", words: "As many rows as queries: what each written token takes from the text that was read." },
    ],
    columns: [
      [
        embedding("Y", state.target, "x", "decoder: it asks"),
        embedding("X", state.tokens, "y", "encoder: it is asked", (context) => context.y),
        { controls: ["target", "tokens"] },
      ],
      [weight("Wq", "q", "makes queries"), weight("Wk", "k", "makes keys"), weight("Wv", "v", "makes values")],
      [
        projected("Q", "Y", { rows: queries, at: 1, source: "x" }),
        projected("K", "X", { rows: keys, at: 1, source: "y" }),
        projected("V", "X", { rows: values, at: 1, source: "y" }),
      ],
      [scoresMatrix({ ...pairs, at: 2 }), scaledMatrix({ ...pairs, at: 3 })],
      [
        weightsMatrix(0, 1, { ...pairs, at: 4, from: "scaled" }),
        outputMatrix(0, 1, { rows: queries, keys, at: 5 }),
      ],
    ],
    joints: ["× W", "=", "Q Kᵀ", "softmax"],
    code: {
      "multi_head_attention.out": 1, "attention.scores": 2, "attention.scaled": 3, "attention.weights": 4,
      "attention.return": 5,
    },
  };
}
