// The parts of the screen that holds two looks against each other.

function partsOf(screen) {
  const { given, root, live } = screen;
  const theme = themeButton(screen);
  const tabs = partTabs(screen);
  const asked = textLine(screen, "queries", "Queries of both texts");
  const looked = textLine(screen, "keys", "Keys of both texts, shaded by the change of the row");
  const heads = movedHeads(screen);
  const title = headTitle(screen);
  const row = rowPanel(screen);
  const { plates, element, draw } = threePlates(screen);
  const [a, b] = given.sides;
  const model = (side) => h("span.soft", " ", h("bdi", visible(side.model)));
  const sides = given.sides.map((side, i) =>
    h("p.side", h("b", "ab"[i]), " ", h("bdi", visible(side.name)),
      a.model !== b.model && side.model !== side.name && model(side)));
  const note = given.exact ? "" : "Numbers with ≈ were rounded to one byte; the file had no room for exact ones.";
  root.append(
    h("header", h("h1", "Two looks"), h("div.sides", ...sides), a.model === b.model ? model(a) : "",
      tabs.element, theme.element),
    note ? h("p.notice", note) : "",
    h("section.panel.texts", { label: "Both texts" }, h("h2", "Both texts in one line"),
      h("p.small.soft", "Equal tokens are paired; where they differ, a stands above b. Click one to choose it."),
      asked.element, looked.element),
    h("main", heads.element,
      h("section.panel.head", { label: "One head" }, title.element, element, row.element)),
    h("footer.small.soft", "Keys: ", ...[["o", "heads"], ["n", "next by movement"], ["m", "difference"],
      ["d", "theme"]].flatMap(([key, what]) => [h("kbd", key), ` ${what}  `])),
    live);
  return { theme, tabs, asked, looked, heads, title, plates, draw, row };
}

/** Encoder, decoder, cross-attention: those that both have. */
function partTabs(screen) {
  const names = screen.given.parts.map(({ name }) => name);
  const cells = names.map((name, part) => button(name, {}, () => screen.choose({ part })));
  const element = h("div.segments", { role: "group", label: "Kind of attention", hidden: names.length < 2 }, ...cells);
  return { element, draw: (part) => cells.forEach((cell, i) => press(cell, i === part)) };
}

/** All heads, in the colour of how far each moved, and in words those that moved most. */
function movedHeads(screen) {
  let [grid, known] = [null, null];
  const place = h("div.scroller");
  const list = h("ol.most");
  const table = tableBehind("Heads as a table", () => movedTable(known));
  const element = h("section.panel.heads", { label: "Heads" }, h("h2", "How far each head moved"),
    h("p.small.soft", "Half of all changes of a row, mean over the paired queries: 0 = as it was, 1 = all elsewhere."),
    place, h("h3", "Moved most"), list, table);
  const build = (part) => {
    const sides = part.partners.map((row) => row.length);
    grid = headGrid(sides, (layer, head) => screen.choose({ layer, head }));
    put(place, grid.element);
    element.parentElement.style.setProperty("--left", `${min(max(grid.width + 45, 300), 430)}px`);
    known = part;
    put(list, ...mostMoved(part).slice(0, 6).map(({ layer, head }) =>
      h("li", button(headWords(part, layer, head), { class: "plain" }, () => screen.choose({ layer, head })))));
    table.refresh();
  };
  return {
    element,
    get grid() { return grid; },
    draw(part, layer, head) {
      if (known !== part) build(part);
      grid.cells.forEach((row, i) => row.forEach((cell, j) => {
        const apart = part.distances[i][j];
        const colour = weightColour(apart ?? NaN, "sqrt", screen.theme);
        cell.style.setProperty("background", css(colour));
        cell.style.setProperty("color", inkOn(colour));
        setText(cell, apart === null ? "NaN" : apart < 0.995 ? apart.toFixed(2).slice(1) : "1");
      }));
      markHeads(grid, layer, head, (i, j) => headWords(part, i, j));
    },
  };
}

function movedTable(part) {
  const rows = mostMoved(part).map(({ layer, head, apart }) => {
    const [i, j] = part.partners[layer][head];
    return [`L${layer} H${head}`, `L${i} H${j}`, apart === null ? "NaN" : apart.toFixed(4)];
  });
  return tableOf("Heads by how far they moved", ["head of a", "held against, of b", "distance"], rows);
}

function headTitle(screen) {
  const name = h("h2");
  const said = h("p.small.soft");
  return {
    element: h("div", name, said),
    draw(part, layer, head) {
      setText(name, `Layer ${layer} · Head ${head}`);
      const [i, j] = part.partners[layer][head];
      const nearest = `a and b have other layers or heads: held against the nearest of b, layer ${i} head ${j}. `;
      const apart = part.distances[layer][head];
      const count = part.queries.filter((place) => !place.includes(null)).length;
      setText(said, `${part.in_place ? "" : nearest}Moved ${apart === null ? "NaN" : percent(apart)}, ` +
        `mean over ${plural(count, "paired query").replace("querys", "queries")}.`);
    },
  };
}

/** a, b, and b minus a, on the same line of places, so that a cell is at the same spot in all three. */
function threePlates(screen) {
  const choose = (query, key) => screen.choose({ query, key });
  const point = (cell) => {
    const { hover } = screen;
    if (hover?.query === cell?.query && hover?.key === cell?.key) return;
    screen.hover = cell;
    pointAgainst(screen);
  };
  const names = ["a", "b", "b − a"];
  const labels = ["Weights of a", "Weights of b", "Difference, b minus a"];
  const plates = labels.map((label) => makePlate(label, choose, point));
  const tables = labels.map((label, i) => tableBehind(`${label} as a table`, () => plateTable(screen, i)));
  const keys = [0, 1, 2].map(() => h("p.legend.small.soft"));
  const figures = plates.map((plate, i) =>
    h("figure", h("figcaption", h("b", names[i]), " ", keys[i]), h("div", plate.element), tables[i]));
  const draw = (part, { a, b, all }) => {
    const both = (axis) => part[axis].map((_, i) => slotName(part, axis, i));
    const room = { queryNames: both("queries"), keyNames: both("keys") };
    [a, b].forEach((weights, side) => {
      const label = (axis) => part[axis].map((place) => tokenAt(part, axis, side, place[side]) ?? "");
      drawPlate(plates[side], { queryNames: label("queries"), keyNames: label("keys"),
        codes: Uint8Array.from(weights, encodeWeight), table: pixelTable(`sqrt ${screen.theme}`),
        stronger: higher, room,
        blank: [gaps(part.queries, side), gaps(part.keys, side)] }, screen.colours);
      put(keys[side], "0 ", strip(ramp(screen.theme)), " 1");
    });
    const single = part.queries.flatMap((place, i) => (place.includes(null) ? [i] : []));
    drawPlate(plates[2], { ...room, codes: Uint8Array.from(all, codeOf), table: differenceTable(screen.theme),
      stronger: farther, blank: [single, []] }, screen.colours);
    put(keys[2], "−1 ", strip(divergingRamp(screen.theme)), " +1");
    tables.forEach((table) => table.refresh());
  };
  return { plates, element: h("div.plates", ...figures), draw };
}

const gaps = (list, side) => list.flatMap((place, i) => (place[side] === null ? [i] : []));

const strip = (colours) => h("span.strip", { style: {
  background: `linear-gradient(90deg,${colours.filter((_, i) => i % 16 === 0).map(css)})` } });

/** A picture in numbers, at most 24 x 24 of them round the chosen cell. */
function plateTable(screen, which) {
  const { given, state } = screen;
  const part = given.parts[state.part];
  const { a, b, all } = shownNow(screen, part, state.layer, state.head);
  const span = (size, place) => {
    const first = max(0, min(place - 12, size - 24));
    return times(min(24, size), (i) => first + i);
  };
  const [down, right] = [span(part.queries.length, state.query), span(part.keys.length, state.key)];
  const word = (at) => (which === 2 ? pointsIn(given, all[at]) : weightIn(given, [a, b][which][at]));
  return tableOf("Rows are queries, columns are keys",
    ["query \\ key", ...right.map((key) => `${placeName(part.keys[key])} ${slotName(part, "keys", key)}`)],
    down.map((query) => [`${placeName(part.queries[query])} ${slotName(part, "queries", query)}`,
      ...right.map((key) => word(query * part.keys.length + key))]));
}

function rowPanel(screen) {
  const readout = h("p.readout");
  const name = h("h3");
  const body = h("div.scroll", { tabIndex: 0, role: "region", label: "Movements of the row" });
  const draw = (part, shown, { query, key }) => {
    const at = query * part.keys.length + key;
    const { given } = screen;
    put(readout, h("span.q", slotNode(part, "queries", query)), " looks at ",
      h("span.k", slotNode(part, "keys", key)), ": a ", h("b", numberIn(given, shown.a[at])), ", b ",
      h("b", numberIn(given, shown.b[at])), ", change ", h("b", pointsIn(given, shown.all[at])));
    const single = part.queries[query].includes(null);
    const row = shown.all.slice(query * part.keys.length, (query + 1) * part.keys.length);
    put(name, "Query ", placeName(part.queries[query]), " ", h("span.q", slotNode(part, "queries", query)),
      single ? "" : `: moved ${given.exact ? percent(movedIn(row)) : aboutPercent(movedIn(row))}`);
    const alone = h("p", "This token stands in one of the texts only, so its row has nothing to be compared with.");
    put(body, single ? alone : movesTable(screen, shown, query));
  };
  return { element: h("section.row", { label: "One query in both" }, readout, name, body), draw };
}

/** A weight with six digits after it, where it is exact. */
function numberIn(given, p) {
  const words = weightIn(given, p);
  return p >= 0 && given.exact ? `${words} (${p.toPrecision(6)})` : words;
}
