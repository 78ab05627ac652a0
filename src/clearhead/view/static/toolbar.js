// The bar at the top: which stack, finding a token, how weights are coloured, link, export, help.

function toolbar(view) {
  const name = h("h1", "clearhead");
  const what = h("span.what.soft");
  const note = h("p.note.small.soft");
  part(view, "meta stack", () => describeScene(view, what));
  part(view, "meta", () => setText(note, view.meta.note ?? ""));
  return h("header.bar-top", logo(), name, what, stackTabs(view), finder(view), scaleChoice(view),
    drawingChoices(view), tools(view), note);
}

const logo = () =>
  svg("svg", { viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true", class: "logo" },
    ...[[0, 0], [0, 7], [7, 7], [0, 14], [7, 14], [14, 14]].map(([x, y]) =>
      svg("rect", { x, y, width: 6, height: 6, rx: 1, fill: "currentColor", opacity: x === y ? 1 : 0.4 })));

function describeScene(view, what) {
  const { queries, keys, id } = stackNow(view);
  const size = id === "cross" ? `${count(queries)} × ${count(keys)} tokens` : plural(queries, "token");
  const said = [view.meta.title, view.meta.model, size].filter((words, i, all) => words && all.indexOf(words) === i);
  setText(what, said.map((words) => shorten(showToken(words), 60)).join(" · "));
}

/** One tab a stack; an absent one says why. */
function stackTabs(view) {
  const tabs = h("div.segments", { role: "tablist", label: "Attention of" });
  const move = (event) => {
    const step = stepOf(event, { ArrowLeft: -1, ArrowRight: 1 });
    if (step) otherStack(view, step);
    if (step) requestAnimationFrame(() => tabs.querySelector('[tabindex="0"]').focus());
  };
  hear(tabs, "keydown", move);
  part(view, "meta", () => put(tabs, ...view.meta.stacks.map((stack) => stackTab(view, stack))));
  part(view, "meta stack", () => {
    for (const tab of tabs.children) {
      const here = tab.dataset.stack === view.state.stack;
      setAttribute(tab, "aria-selected", String(here));
      setAttribute(tab, "tabindex", here ? 0 : -1);
    }
  });
  return tabs;
}

function stackTab(view, { id, missing }) {
  const label = [STACK_NAMES[id], missing && h("span.unseen", ` (${missing})`)];
  const click = () => (missing ? announce(view, `${STACK_NAMES[id]}: ${missing}.`) : choose(view, { stack: id }));
  const disabled = missing ? "true" : null;
  const props = { role: "tab", data: { stack: id }, title: missing, "aria-disabled": disabled };
  return button(label, props, click);
}

/** Finds a token by a part of it, or goes to a place by its number. */
function finder(view) {
  const note = h("span.small.soft.found", { role: "status" });
  const label = "Find a token, or a place by its number";
  const field = h("input", { type: "search", placeholder: "Find token  /", label });
  hear(field, "keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") setText(note, find(view, field.value, event.shiftKey ? -1 : 1));
    if (event.key === "Escape") focusField(view);
  });
  hear(field, "input", () => setText(note, ""));
  view.finder = field;
  return h("span.find", field, note);
}

/** Makes the next match the query. @returns {string} what was found */
function find(view, wanted, step) {
  const tokens = queryTokens(view);
  const { query } = view.state;
  if (wanted.trim() === "") return "";
  if (/^\d+$/.test(wanted.trim()) && Number(wanted) < tokens.length) {
    choose(view, { query: Number(wanted), key: null });
    return `place ${count(Number(wanted))}`;
  }
  const needle = wanted.toLowerCase();
  const matches = tokens.flatMap(({ label, flow }, i) =>
    label.toLowerCase().includes(needle) || flow.toLowerCase().includes(needle) ? [i] : []);
  if (!matches.length) return "no such token";
  const later = step > 0 ? matches.find((i) => i > query) ?? matches[0]
    : matches.findLast((i) => i < query) ?? matches[matches.length - 1];
  choose(view, { query: later, key: null });
  return `${matches.indexOf(later) + 1} of ${matches.length}`;
}

function scaleChoice(view) {
  const pick = (scale) => button(SCALE_NAMES[scale], { data: { scale } }, () => choose(view, { scale }));
  const group = h("div.segments", { role: "group", label: "Scale of the colours (S)" }, ...SCALES.map(pick));
  part(view, "scale meta", () => {
    for (const one of group.children) press(one, one.dataset.scale === view.state.scale);
  });
  return group;
}

function drawingChoices(view) {
  const change = () => choose(view, { thick: Number(thick.value) });
  const thick = h("select", { label: "Thicken large weights", listen: { change } },
    ...THICKEN.map((percent) => h("option", { value: percent }, percent ? `thicken > ${percent}%` : "thicken: off")));
  const sink = button("without the sink", { title: "leave the first key out; rows sum to one without it (Z)" },
    () => choose(view, { sink: !view.state.sink, key: null }));
  part(view, "thick sink meta", () => {
    thick.value = String(view.state.thick);
    press(sink, !view.state.sink);
  });
  return h("span.choices", thick, sink);
}

function tools(view) {
  const theme = button("◐", { label: "Light or dark (D)" }, () => turnTheme(view));
  const link = button("Link", { title: "Copy a link to what is shown" }, () => copyLink(view));
  const figure = (kind) => button(kind.toUpperCase(), { title: "Save this head" }, () => exportFigure(view, kind));
  const help = button("?", { label: "Keys" }, () => showHelp(view));
  return h("span.tools", theme, link, figure("svg"), figure("png"), help);
}

const turnTheme = (view) => choose(view, { theme: view.theme === "dark" ? "light" : "dark" });

async function copyLink(view) {
  const state = formatState(view.state);
  const text = view.options.page ? `${location.href.split("#")[0]}#${state}` : state;
  if (await copyText(text)) announce(view, view.options.page ? "Link copied." : "Copied: the widget's state.");
  else complain(view, `Copying is not allowed here; the link ends in #${state}`);
}
