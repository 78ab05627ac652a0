// One query in both texts: what moved most, and the texts themselves, shaded by it.

const MOST_MOVES = 10;

/** The largest movements of a row, each a line of exact numbers; what is left in one line. */
function movesTable(screen, { part, a, b, all }, query) {
  const { given, theme, state } = screen;
  const from = query * part.keys.length;
  const row = part.keys.map((_, key) => ({ key, a: a[from + key], b: b[from + key], d: all[from + key] }));
  const shown = row.filter(({ d }) => d !== null).sort((x, y) => abs(y.d) - abs(x.d) || x.key - y.key);
  const widest = max(1e-9, ...shown.map(({ d }) => abs(d) || 0));
  const lines = shown.slice(0, MOST_MOVES).map(({ key, a, b, d }) => {
    const place = placeName(part.keys[key]);
    return [
      h("span", button(place, { class: "plain", label: `Key ${place}` }, () => screen.choose({ key })),
        slotNode(part, "keys", key)),
      weightIn(given, a), weightIn(given, b),
      h("span.change", moveBar(d / widest, differenceColour(d, theme)), pointsIn(given, d)),
    ];
  });
  const rest = shown.slice(MOST_MOVES);
  const total = (side) => rest.reduce((sum, one) => sum + weightOr0(one[side]), 0);
  if (rest.length) {
    const moved = rest.reduce((sum, one) => sum + one.d, 0);
    lines.push([plural(rest.length, "other key"), weightIn(given, total("a")), weightIn(given, total("b")),
      pointsIn(given, moved)]);
  }
  const table = tableOf("Largest movements first; a change is in hundredths", ["key", "a", "b", "change"], lines);
  table.className = "moves";
  const chosen = shown.slice(0, MOST_MOVES).findIndex(({ key }) => key === state.key);
  if (chosen >= 0) table.tBodies[0].rows[chosen].className = "chosen";
  return table;
}

/** A bar from the middle, to the left for less, to the right for more. */
function moveBar(share, colour) {
  const wide = `${50 * min(abs(share) || 0, 1)}%`;
  const style = { width: wide, background: css(colour), [share < 0 ? "right" : "left"]: "50%" };
  return h("span.movebar", { "aria-hidden": "true" }, h("span", { style }));
}

/** Where a token stands: 3, in both texts; 3→4, where they differ; a 3, in one only. */
function placeName([a, b]) {
  if (b === null) return `a ${a}`;
  if (a === null) return `b ${b}`;
  return a === b ? String(a) : `${a}→${b}`;
}

const tokenAt = (part, axis, side, place) => (place === null ? null : part.names[side][axis][place]);

/** What a place is called: a token, or two with an arrow between, or one and which text it is in. */
function slotName(part, axis, index) {
  const [a, b] = part[axis][index].map((place, side) => tokenAt(part, axis, side, place));
  if (a === b) return a;
  return a === null ? `+${b}` : b === null ? `−${a}` : `${a}→${b}`;
}

function slotNode(part, axis, index) {
  const [a, b] = part[axis][index].map((place, side) => tokenAt(part, axis, side, place));
  if (a === b) return tokenNode(a);
  return h("span", a !== null && h("del", tokenNode(a)), a !== null && b !== null && " → ",
    b !== null && h("ins", tokenNode(b)));
}

/** Both texts in one line: a above, b below where they differ. Clicking one chooses it. */
function textLine(screen, axis, label) {
  const line = h("div.line", { role: "group", label });
  let known = null;
  const build = (part) => {
    const slots = part[axis].map((place, index) => {
      const [a, b] = place.map((at, side) => tokenAt(part, axis, side, at));
      const kids = a === b ? [tokenNode(a)] : [a, b].map((text, side) => tokenNode(text ?? "", side ? "is" : "was"));
      const what = axis === "keys" && part.name === "cross" ? "key" : "query";
      const listen = { click: () => screen.choose({ [what]: index }) };
      return h(a === b ? "span.slot" : "span.slot.apart", { listen }, ...kids);
    });
    put(line, ...slots);
    known = part;
    return slots;
  };
  return {
    element: h("div", h("p.axis.small.soft", axis === "keys" ? "keys: looked at" : "queries: looking"), line),
    draw(part, shades, query, key) {
      const slots = known === part ? [...line.children] : build(part);
      slots.forEach((slot, index) => {
        const shade = shades?.[index] ?? null;
        const colour = shade === null ? null : differenceColour(shade, screen.theme);
        slot.style.setProperty("background", colour ? css(colour) : "none");
        slot.style.setProperty("color", colour ? inkOn(colour) : "inherit");
        slot.classList.toggle("query", index === query);
        slot.classList.toggle("key", index === key);
      });
    },
  };
}
