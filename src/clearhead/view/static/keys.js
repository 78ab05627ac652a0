// The keyboard: one letter a thing. A key that is handled stops there, or a notebook would act on it too.

/** @type {Record<string, [string, (view: View) => void]>} key → what it does */
const KEYS = {
  o: ["to the heads; arrows move and choose", (view) => view.root.querySelector(".heads [tabindex='0']").focus()],
  m: ["to the matrix; ↑ ↓ query, ← → key, Shift × 10, Home End PageUp PageDown", (view) => focusField(view)],
  t: ["next largest key of the row", (view) => nextLargest(view)],
  "/": ["find a token, or go to a place; Enter next, Shift+Enter back", (view) => view.finder.focus()],
  s: ["scale: linear, √, log₁₀", (view) => choose(view, { scale: following(SCALES, view.state.scale) })],
  w: ["thicken large weights", (view) => choose(view, { thick: following(THICKEN, view.state.thick) })],
  z: ["with or without the first key (sink)", (view) => choose(view, { sink: !view.state.sink, key: null })],
  d: ["light or dark", (view) => turnTheme(view)],
  x: ["switch the chosen head off or on", (view) => toggleAblation(view, "zero")],
  g: ["write the next token", (view) => stepOn(view, 1)],
  "[": ["stack before", (view) => otherStack(view, -1)],
  "]": ["stack after", (view) => otherStack(view, 1)],
  "?": ["these keys", (view) => showHelp(view)],
};

/** What a key stands for in a table of steps, or null; a key that is handled goes no further. */
function stepOf(event, steps) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (!hasOwn(steps, key) || event.ctrlKey || event.metaKey || event.altKey) return null;
  event.preventDefault();
  event.stopPropagation();
  return steps[key];
}

const following = (all, now) => all[(all.indexOf(now) + 1) % all.length];
const focusField = (view) => view.root.querySelector('[role="application"]').focus();

function otherStack(view, step) {
  const present = view.meta.stacks.filter((stack) => !stack.missing).map((stack) => stack.id);
  choose(view, { stack: present[(present.indexOf(view.state.stack) + step + present.length) % present.length] });
}

function pressed(view, event) {
  if (event.defaultPrevented || !view.meta) return;
  if (event.composedPath()[0].matches?.("input, textarea, select")) return;
  stepOf(event, KEYS)?.[1](view);
}

function helpDialog() {
  const rows = entries(KEYS).map(([key, [what]]) => [h("kbd", key.toUpperCase()), what]);
  const close = button("Close", {}, () => dialog.close());
  const notes = [
    "Rows are queries: each looks at the keys, and its weights sum to one.",
    "A number without ≈ is exact; a cell is rounded to one byte.",
    "Hatched is hidden by the mask; the palest colour is zero; magenta is not a number.",
    "A click on a token of the text makes it the query, with Shift the key.",
  ];
  const dialog = h("dialog", { label: "Keys" }, h("h2", "Keys"), tableOf("", ["key", "does"], rows),
    ...notes.map((note) => h("p.small.soft", note)), close);
  return dialog;
}

function showHelp(view) {
  if (!view.help.open) view.help.showModal();
}
