// Heads as they form: a slider over the steps, all heads at that step, one large, and curves beside the loss.

/** @param {HTMLElement} element an empty one */
async function startFilm(element) {
  const given = await readGiven("film");
  if (given.version !== 1) return void setText(element, "This page is of another version of clearhead.");
  const screen = makeScreen(element, "film", {
    read: (found) => filmState(given, found),
    words: ({ text, part, step, layer, head, query, key, statistic, theme }) =>
      ({ x: text, s: part, i: given.steps[step], l: layer, h: head, q: query, k: key, o: statistic,
        ...(theme === "auto" ? {} : { t: theme }) }),
    draw: () => drawFilm(screen),
  });
  assign(screen, { given, hover: null, choose: (place) => chooseInFilm(screen, place) });
  const parts = screen.parts = { header: filmHeader(screen), reel: reel(screen), heads: thumbPanel(screen),
    big: bigHead(screen), curves: curvePanel(screen) };
  const note = given.exact ? "" : "Numbers with ≈ were rounded to one byte; the file had no room for exact ones.";
  screen.root.append(parts.header.element, note ? h("p.notice", note) : "", parts.reel.element,
    h("main", parts.heads.element, parts.big.element, parts.curves.element),
    h("footer.small.soft", "Keys: ", ...[["p", "play"], ["[ ]", "step"], ["o", "heads"], ["m", "one head"],
      ["d", "theme"]].flatMap(([key, what]) => [h("kbd", key), ` ${what}  `])),
    screen.live);
  listenToLetters({
    p: parts.reel.toggle,
    "[": () => parts.reel.go(screen.state.step - 1),
    "]": () => parts.reel.go(screen.state.step + 1),
    o: () => parts.heads.grid.element.querySelector("[aria-selected=true]").focus(),
    m: () => parts.big.plate.element.focus(),
    d: parts.header.turn,
  });
  screen.draw();
}

/** What the address names, as far as it is there; at first the last step, and the head that is least even. */
function filmState(given, found) {
  const text = placeIn(found, "x", given.texts.length);
  const names = partNames(given, text);
  const part = names.includes(found.get("s")) ? found.get("s") : names[names.length - 1];
  const asked = found.get("i") ?? "";
  const step = /^\d{1,9}$/.test(asked) ? nearestStep(given.steps, Number(asked)) : given.steps.length - 1;
  const state = { text, part, step, theme: themeIn(found) };
  const now = partAt(given, state, given.steps.length - 1);
  const [first] = now.statistics.max.flatMap((row, layer) => row.map((value, head) => ({ layer, head, value })))
    .sort((a, b) => (b.value ?? -1) - (a.value ?? -1));
  const layer = placeIn(found, "l", now.patterns.length, first.layer);
  const head = placeIn(found, "h", now.patterns[layer].length, first.layer === layer ? first.head : 0);
  const shown = partAt(given, state, step);
  const query = placeIn(found, "q", shown.queries.length, shown.queries.length - 1);
  const statistic = hasOwn(now.statistics, found.get("o") ?? "") ? found.get("o") : "entropy";
  const raw = rawWeights(given, shown, layer, head);
  const row = shown.keys.map((_, key) => weightAt(given, raw, query * shown.keys.length + key));
  const key = placeIn(found, "k", shown.keys.length, row.indexOf(max(...row)));
  return { ...state, layer, head, query, key, statistic };
}

/** A new state; what another sentence, part or step does not have gives way to the nearest that it has. */
function chooseInFilm(screen, place) {
  const { given } = screen;
  const state = { ...screen.state, ...place };
  const names = partNames(given, state.text);
  if (!names.includes(state.part)) state.part = names[names.length - 1];
  const part = partAt(given, state, state.step);
  state.layer = inside(state.layer, part.patterns.length);
  state.head = inside(state.head, part.patterns[state.layer].length);
  state.query = inside(state.query, part.queries.length);
  state.key = inside(state.key, part.keys.length);
  if (!hasOwn(part.statistics, state.statistic)) state.statistic = "entropy";
  screen.hover = null;
  screen.change(state, filmWords(screen, state, place));
}

function filmWords(screen, state, place) {
  const part = partAt(screen.given, state, state.step);
  if (place.query !== undefined) {
    const at = state.query * part.keys.length + state.key;
    const p = weightAt(screen.given, rawWeights(screen.given, part, state.layer, state.head), at);
    return `${showToken(part.queries[state.query])} looks at ${showToken(part.keys[state.key])}: ` +
      weightWord(screen.given, p);
  }
  const step = place.step === undefined ? "" : `Step ${count(screen.given.steps[state.step])}. `;
  return step + headWord({ given: screen.given, state }, part, state.layer, state.head);
}

function drawFilm(screen) {
  const { given, state, parts } = screen;
  if (!parts) return;
  const part = partAt(given, state, state.step);
  parts.header.draw(state);
  parts.reel.draw(state);
  parts.heads.draw(part, state);
  parts.big.draw(part, state);
  parts.curves.draw();
  pointFilm(screen);
}

/** What follows the pointer. */
function pointFilm(screen) {
  const { given, state, parts, hover } = screen;
  parts.big.point(partAt(given, state, state.step), state, hover ?? state);
}
