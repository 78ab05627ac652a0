// Two looks against each other: how far each head moved, both pictures of one, their difference, and one query of both.

/** @param {HTMLElement} element an empty one */
async function startAgainst(element) {
  const given = await readGiven("against");
  if (given.version !== 1) return void setText(element, "This page is of another version of clearhead.");
  for (const part of given.parts) part.names = part.tokens.map(readableBoth);
  const screen = makeScreen(element, "against", {
    read: (found) => stateIn(given, found),
    words: ({ part, layer, head, query, key, theme }) =>
      ({ s: given.parts[part].name, l: layer, h: head, q: query, k: key, ...(theme === "auto" ? {} : { t: theme }) }),
    draw: () => drawAgainst(screen),
  });
  assign(screen, { given, hover: null, choose: (place) => chooseHead(screen, place) });
  screen.parts = partsOf(screen);
  listenToLetters({
    d: screen.parts.theme.turn,
    m: () => screen.parts.plates[2].element.focus(),
    n: () => nextMove(screen),
    o: () => screen.parts.heads.grid.element.querySelector("[aria-selected=true]").focus(),
  });
  screen.draw();
}

const readableBoth = (tokens) => fromEntries(entries(tokens).map(([axis, list]) =>
  [axis, readableTokens(list).map(({ label }) => label)]));

/** What the address names, as far as it is there; at first the head that moved most, and where it moved most. */
function stateIn(given, found) {
  const named = given.parts.findIndex(({ name }) => name === found.get("s"));
  const part = named < 0 ? given.parts.length - 1 : named;
  const { distances, queries, keys } = given.parts[part];
  const [first] = mostMoved(given.parts[part]);
  const layer = placeIn(found, "l", distances.length, first.layer);
  const head = placeIn(found, "h", distances[layer].length, first.layer === layer ? first.head : 0);
  const state = { part, layer, head, theme: themeIn(found) };
  const [query, key] = farthestCell(given, given.parts[part], layer, head);
  return { ...state, query: placeIn(found, "q", queries.length, query), key: placeIn(found, "k", keys.length, key) };
}

const mostMoved = ({ distances }) =>
  distances.flatMap((row, layer) => row.map((apart, head) => ({ layer, head, apart })))
    .sort((x, y) => (y.apart ?? -1) - (x.apart ?? -1));

/** The head's query and key that moved most. */
function farthestCell(given, part, layer, head) {
  const { all } = bothOf(given, part, layer, head);
  const best = all.reduce((at, d, i) => (abs(d ?? 0) > abs(all[at] ?? 0) ? i : at), 0);
  return [floor(best / part.keys.length), best % part.keys.length];
}

function bothOf(given, part, layer, head) {
  const a = weightsOnLine(given, part, 0, [layer, head]);
  const b = weightsOnLine(given, part, 1, part.partners[layer][head]);
  return { part, a, b, all: differences(part, a, b) };
}

function chooseHead(screen, place) {
  const before = screen.state;
  const state = { ...before, ...place };
  const part = screen.given.parts[state.part];
  const other = state.part !== before.part || state.layer !== before.layer || state.head !== before.head;
  if (state.part !== before.part) {
    const [first] = mostMoved(part);
    assign(state, { layer: first.layer, head: first.head, query: 0, key: 0 });
  }
  if (other && place.query === undefined) {
    [state.query, state.key] = farthestCell(screen.given, part, state.layer, state.head);
  }
  screen.hover = null;
  screen.change(state, other ? headWords(part, state.layer, state.head) : cellWords(screen, state));
}

function headWords(part, layer, head) {
  const apart = part.distances[layer][head];
  const moved = apart === null ? "not a number" : `moved ${percent(apart)}`;
  const [i, j] = part.partners[layer][head];
  const other = part.in_place ? "" : `, nearest in b: layer ${i} head ${j}`;
  return `Layer ${layer} head ${head}${other}: ${moved}`;
}

function cellWords(screen, { part: index, layer, head, query, key }) {
  const { given } = screen;
  const part = given.parts[index];
  const { a, b, all } = shownNow(screen, part, layer, head);
  const at = query * part.keys.length + key;
  return `${slotName(part, "queries", query)} looks at ${slotName(part, "keys", key)}: ` +
    `a ${weightIn(given, a[at])}, b ${weightIn(given, b[at])}, change ${pointsIn(given, all[at])}`;
}

/** Both heads' weights; kept until another head is chosen. */
function shownNow(screen, part, layer, head) {
  const name = `${part.name} ${layer} ${head}`;
  if (screen.shown?.name !== name) screen.shown = { name, ...bothOf(screen.given, part, layer, head) };
  return screen.shown;
}

/** The next head in the order of how far they moved. */
function nextMove(screen) {
  const { part, layer, head } = screen.state;
  const order = mostMoved(screen.given.parts[part]);
  const here = order.findIndex((one) => one.layer === layer && one.head === head);
  const next = order[(here + 1) % order.length];
  screen.choose({ layer: next.layer, head: next.head });
}

function drawAgainst(screen) {
  const { given, state, parts } = screen;
  if (!parts) return;
  const { layer, head } = state;
  const part = given.parts[state.part];
  const shown = shownNow(screen, part, layer, head);
  parts.theme.draw();
  parts.tabs.draw(state.part);
  parts.heads.draw(part, layer, head);
  parts.title.draw(part, layer, head);
  parts.draw(part, shown);
  pointAgainst(screen);
}

/** What follows the pointer: crosshairs, the cell in words, the row, the texts. */
function pointAgainst(screen) {
  const { given, state, parts, colours } = screen;
  const part = given.parts[state.part];
  const shown = shownNow(screen, part, state.layer, state.head);
  const cell = screen.hover ?? { query: state.query, key: state.key };
  for (const plate of parts.plates) drawCrosshair(plate, cell, colours);
  parts.row.draw(part, shown, cell);
  const row = shown.all.slice(cell.query * part.keys.length, (cell.query + 1) * part.keys.length);
  const across = part.name === "cross";
  parts.asked.element.hidden = !across;
  if (across) parts.asked.draw(part, null, cell.query, -1);
  parts.looked.draw(part, row, across ? -1 : cell.query, cell.key);
}
