// The text, shaded by the row. A token is an option of a list: choosing it makes it the query.

const WHOLE = 1100; // up to this many tokens the whole text is shown
const AROUND = 12; // tokens on either side of what a long text shows
const SHADES = 48;

function textPanel(view) {
  const body = h("div");
  const parts = { body, sides: [] };
  part(view, "stack meta", () => buildText(view, parts));
  part(view, "row query key", () => parts.sides.forEach((side) => rewindow(view, side)));
  part(view, "row query key theme scale sink stack meta effect", () => {
    parts.sides.forEach((side) => shadeText(view, side));
  });
  return panel("text-panel", "Text", body, anotherText(view));
}

/** Self-attention has one text; across, one side looks and the other is looked at. */
function buildText(view, parts) {
  const stack = stackNow(view);
  const self = stack.query_tokens === stack.key_tokens;
  const sides = self ? [["query key", "Text", "shaded by the row; choose a token to make it the query"]]
    : [["query", "Target text", "choose a token to make it the query"],
      ["key", "Source text", "it is looked at; shaded by the row"]];
  parts.sides = sides.map(([roles, name, note]) => textSide(view, roles, name, note));
  put(parts.body, ...parts.sides.map((side) => side.element));
}

function textSide(view, roles, name, note) {
  const asks = roles.includes("query");
  const list = h("div.flow", { role: "listbox", tabIndex: 0, label: `${name}: ${note}` });
  const legend = h("p.small.soft.effect-legend", { hidden: true });
  const tokens = asks ? queryTokens(view) : keyTokens(view);
  const side = { asks, shades: roles.includes("key"), list, legend, tokens, spans: new Map(), windows: "" };
  hear(list, "click", (event) => chooseToken(view, side, event));
  hear(list, "keydown", (event) => moveInText(view, side, event));
  side.element = h("div", h("div.title", h("h2", name), h("span.soft.small", note)), list, legend);
  return side;
}

function chooseToken(view, side, event) {
  const place = event.target.closest("[data-place]")?.dataset.place;
  if (place === undefined) return;
  if (side.asks && !event.shiftKey) choose(view, { query: Number(place), key: null });
  else choose(view, { key: Number(place) });
}

const TEXT_STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -Infinity, End: Infinity };

function moveInText(view, side, event) {
  const step = stepOf(event, TEXT_STEPS);
  if (step === null) return;
  if (side.asks) choose(view, { query: view.state.query + step, key: null });
  else choose(view, { key: clamp(keyNow(view) + step, side.tokens.length - 1) });
}

/** The places that are shown: all, or those near the query and its largest keys. @returns {[number, number][]} */
function windowsOf(view, side) {
  const { length } = side.tokens;
  if (length <= WHOLE) return [[0, length]];
  const centres = new Set([0, side.asks ? view.state.query : keyNow(view)]);
  const row = side.shades ? rowNow(view) : null;
  if (side.shades) centres.add(keyNow(view));
  if (row) largest(row, 6).top.forEach((key) => centres.add(key));
  const spans = [...centres].sort((a, b) => a - b).map((at) => [max(0, at - AROUND), min(length, at + AROUND + 1)]);
  return spans.reduce((joined, span) => {
    const last = joined[joined.length - 1];
    if (last && span[0] <= last[1] + 4) last[1] = max(last[1], span[1]);
    else joined.push(span);
    return joined;
  }, []);
}

function rewindow(view, side) {
  const windows = windowsOf(view, side);
  if (side.windows === windows.join()) return;
  side.windows = windows.join();
  side.spans = new Map();
  const pieces = [];
  let end = 0;
  for (const [from, to] of windows) {
    if (from > end) pieces.push(gap(from - end));
    for (let place = from; place < to; place++) pieces.push(...tokenSpan(side, place));
    end = to;
  }
  if (end < side.tokens.length) pieces.push(gap(side.tokens.length - end));
  put(side.list, ...pieces);
}

const gap = (tokens) => h("span.gap", { role: "none" }, plural(tokens, "token"));

function tokenSpan(side, place) {
  const { label, flow, note } = side.tokens[place];
  const named = flow.trim() ? null : label; // a blank alone has no name of its own
  const props = { role: "option", id: `t${place}`, data: { place }, title: note || null, label: named };
  const span = h("bdi.t", props, flow.replace(/\n/g, ""));
  side.spans.set(place, { span, look: "" });
  return [span, "\n".repeat(flow.split("\n").length - 1)];
}

/** Touches only tokens that look different from before. */
function shadeText(view, side) {
  if (side.windows === "") rewindow(view, side);
  const row = side.shades ? rowNow(view) : null;
  if (side.shades && !row) return;
  const chosen = { query: side.asks ? view.state.query : -1, key: side.shades ? keyNow(view) : -1 };
  const effect = effectOn(view, side);
  for (const [place, entry] of side.spans) {
    const shade = row && row[place] >= 0 ? round(SHADES * scaled(row[place], view.state.scale)) : -1;
    const mark = `${place === chosen.query ? "q" : ""}${place === chosen.key ? "k" : ""}`;
    const change = effect ? effect.values[place] : NaN;
    const under = isNaN(change) ? "" : css(signedColour(change, effect.limit, view.theme));
    dressToken(view, entry, row ? shade : 0, mark, under);
  }
  const here = side.asks ? chosen.query : chosen.key;
  setAttribute(side.list, "aria-activedescendant", `t${here}`);
  if (side.here !== here) side.list.scrollTop = side.spans.get(here).span.offsetTop - 150;
  side.here = here;
  sayEffect(view, side, effect);
}

function dressToken(view, entry, shade, mark, under) {
  const look = `${shade} ${mark} ${under} ${view.theme}`;
  if (entry.look === look) return;
  const { span } = entry;
  entry.look = look;
  const colour = shade > 0 ? ramp(view.theme)[round((255 * shade) / SHADES)] : null;
  span.style.setProperty("background", colour ? css(colour) : "");
  span.style.setProperty("color", colour ? inkOn(colour) : "");
  span.style.setProperty("border-bottom-color", under || "");
  const on = { masked: shade < 0, query: mark.includes("q"), key: mark.includes("k") };
  for (const name in on) span.classList.toggle(name, on[name]);
  setAttribute(span, "aria-selected", String(mark !== ""));
}

/** Change of every token's log-probability by the ablation, under the text that the model writes. */
function effectOn(view, side) {
  const answer = view.shown.effect;
  if (!answer || side.tokens !== view.tokens[lastStack(view)]) return null;
  const values = floatsOf(answer);
  const limit = values.reduce((most, value) => max(most, abs(value) || 0), 0);
  return { values, limit };
}

function sayEffect(view, { legend }, effect) {
  legend.hidden = effect === null;
  if (effect === null) return;
  const limit = effect.limit.toPrecision(2);
  put(legend, "Line under a token: change of log p of what follows it, ",
    `−${limit}`, stripOf(divergingRamp(view.theme)), `+${limit}`);
}
