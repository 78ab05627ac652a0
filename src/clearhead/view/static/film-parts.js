// The parts of the film's screen: what is chosen above, all heads at a step, one of them large.

/** Which sentence, which kind of attention. */
function filmHeader(screen) {
  const { given } = screen;
  const texts = h("select", { label: "Sentence", hidden: given.texts.length < 2,
    listen: { change: () => screen.choose({ text: Number(texts.value) }) } },
  ...given.texts.map(({ text }, value) => h("option", { value }, shorten(visible(text), 60))));
  const kinds = h("div.segments", { role: "group", label: "Kind of attention" });
  const theme = themeButton(screen);
  const element = h("header", h("h1", h("bdi", visible(given.title))), texts, kinds, theme.element);
  return {
    element, turn: theme.turn,
    draw({ text, part }) {
      texts.value = text;
      const names = partNames(given, text);
      kinds.hidden = names.length < 2;
      if (kinds.children.length !== names.length) {
        put(kinds, ...names.map((name) => button(name, {}, () => screen.choose({ part: name }))));
      }
      [...kinds.children].forEach((cell, i) => press(cell, names[i] === part));
      theme.draw();
    },
  };
}

/** The slider over the steps, and what plays it; where motion is to be reduced, it goes step by step when asked. */
function reel(screen) {
  const { given } = screen;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const last = given.steps.length - 1;
  const slider = h("input.slider", { type: "range", min: 0, max: last, label: "Step of training",
    listen: { input: () => go(Number(slider.value)) } });
  const said = h("output.step");
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    setText(play, still ? "Next" : "Play");
  };
  const go = (step) => {
    stop();
    screen.choose({ step: inside(step, last + 1) });
  };
  const advance = () => {
    const { step } = screen.state;
    if (step === last) return stop();
    screen.choose({ step: step + 1 });
  };
  const toggle = () => {
    if (timer) return stop();
    if (still) return go((screen.state.step + 1) % (last + 1));
    if (screen.state.step === last) screen.choose({ step: 0 });
    timer = setInterval(advance, 700);
    setText(play, "Pause");
  };
  const play = button("", { class: "play" }, toggle);
  stop();
  const element = h("section.reel", { label: "Steps" }, play, slider, said);
  return {
    element, toggle, go,
    draw({ step }) {
      slider.value = step;
      const at = `step ${count(given.steps[step])}`;
      setAttribute(slider, "aria-valuetext", `${at}, ${step + 1} of ${last + 1}`);
      setText(said, `${at} of ${count(given.steps[last])}`);
    },
  };
}

/** All heads as small pictures. */
function thumbPanel(screen) {
  let [grid, known] = [null, ""];
  const place = h("div.scroller");
  const said = h("p.sentence");
  const element = h("section.panel.heads", { label: "Heads" }, h("h2", "Heads"), place, said);
  const build = (layers) => {
    grid = headGrid(layers, (layer, head) => screen.choose({ layer, head }), [58, 37, 26]);
    grid.cells.flat().forEach((cell) => put(cell, h("canvas", { "aria-hidden": "true" })));
    put(place, grid.element);
    element.parentElement.style.setProperty("--left", `${min(max(grid.width + 45, 300), 560)}px`);
  };
  return {
    element,
    get grid() { return grid; },
    draw(part, { layer, head }) {
      const layers = layersOf(part);
      if (known !== layers.join()) build(layers);
      known = layers.join();
      grid.cells.forEach((row, i) => row.forEach((cell, j) => drawThumb(screen, part, cell.firstChild, i, j)));
      markHeads(grid, layer, head, (i, j) => headWord(screen, part, i, j));
      setText(said, headWord(screen, part, layer, head));
    },
  };
}

function drawThumb({ given, theme }, part, canvas, layer, head) {
  const [rows, columns] = [part.queries.length, part.keys.length];
  if (canvas.width !== columns || canvas.height !== rows) assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  const table = pixelTable(`sqrt ${theme}`);
  const cells = new Uint32Array(pixels.data.buffer);
  codesOf(given, rawWeights(given, part, layer, head)).forEach((code, i) => (cells[i] = table[code]));
  context.putImageData(pixels, 0, 0);
}

/** "Layer 0 head 1: previous token, induction 4.31%" */
function headWord({ given, state }, part, layer, head) {
  const value = part.statistics[state.statistic]?.[layer]?.[head] ?? null;
  const pattern = patternWord(given, part.patterns[layer][head]);
  return `Layer ${layer} head ${head}: ${pattern}; ${statisticWord(state.statistic)} ` +
    statisticNumber(state.statistic, value);
}

/** One head large, and the exact weight under the pointer. */
function bigHead(screen) {
  const { given } = screen;
  const point = (cell) => {
    if (screen.hover?.query === cell?.query && screen.hover?.key === cell?.key) return;
    screen.hover = cell;
    pointFilm(screen);
  };
  const plate = makePlate("Weights of the chosen head", (query, key) => screen.choose({ query, key }), point);
  const [name, readout] = [h("h2"), h("p.readout")];
  const table = tableBehind("This head as a table", () => weightsTable(screen));
  const legend = h("p.legend.small.soft");
  const element = h("section.panel.head", { label: "One head" }, h("div.title", name, legend),
    h("div", plate.element), readout, table);
  return {
    element, plate,
    draw(part, { layer, head, step }) {
      setText(name, `Layer ${layer} · Head ${head} at step ${count(given.steps[step])}`);
      put(legend, "0 ", h("span.strip", { style: {
        background: `linear-gradient(90deg,${ramp(screen.theme).filter((_, i) => i % 16 === 0).map(css)})` } }), " 1");
      const label = (axis) => readableTokens(part[axis]).map((token) => token.label);
      drawPlate(plate, { queryNames: label("queries"), keyNames: label("keys"),
        codes: codesOf(given, rawWeights(given, part, layer, head)), table: pixelTable(`sqrt ${screen.theme}`),
        stronger: higher }, screen.colours);
      table.refresh();
    },
    point(part, { layer, head }, { query, key }) {
      drawCrosshair(plate, { query, key }, screen.colours);
      const p = weightAt(given, rawWeights(given, part, layer, head), query * part.keys.length + key);
      put(readout, tokenNode(showToken(part.queries[query]), "q"), ` at ${query} looks at `,
        tokenNode(showToken(part.keys[key]), "k"), ` at ${key}: `, h("b", weightWord(given, p)));
    },
  };
}

function weightsTable({ given, state }) {
  const part = partAt(given, state, state.step);
  const raw = rawWeights(given, part, state.layer, state.head);
  const named = (tokens) => tokens.map((token, i) => `${i} ${showToken(token)}`);
  const word = (p) => (p < 0 ? "hidden" : given.exact ? percent(p) : aboutPercent(p));
  return tableOf("Rows are queries, columns are keys", ["query \\ key", ...named(part.keys)],
    named(part.queries).map((name, query) =>
      [name, ...part.keys.map((_, key) => word(weightAt(given, raw, query * part.keys.length + key)))]));
}
