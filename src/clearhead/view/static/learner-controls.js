// What stands under the numbers of a text: its tokens, the mask, the order, the positions. Made once, drawn often.

/**
 * @param {{change(make)}} act make(state) gives {state} or {refused}
 * @returns {{of(names), draw(view)}}
 */
function makeControls(act, lesson) {
  const made = {
    tokens: tokensEditor(act, lesson, "tokens"),
    target: tokensEditor(act, lesson, "target"),
    causal: checkbox("causal mask", "hide the future", "causal", act),
    positions: checkbox("add positions", "sines and cosines", "positions", act),
    order: orderEditor(act),
  };
  return {
    of: (names) => h("div", { class: "controls" }, ...names.map((name) => made[name].element)),
    draw: (view) => Object.values(made).forEach((control) => control.draw(view)),
  };
}

function checkbox(name, words, key, act) {
  const change = () => act.change((state) => ({ state: { ...state, [key]: input.checked } }));
  const input = h("input", { type: "checkbox", listen: { change } });
  return {
    element: h("label", { class: "check" }, input, h("span", {}, name, h("span", { class: "soft" }, ` ${words}`))),
    draw: ({ state }) => (input.checked = state[key]),
  };
}

/** Names to change, a token to take away or to add. */
function tokensEditor(act, lesson, list) {
  const rows = h("div", { class: "names" }), legend = h("legend", {});
  const add = button("+ token", { class: "add" }, () => act.change((state) => withToken(state, list, lesson)));
  const draw = ({ state, page }) => {
    const whose = list === "tokens" ? "Tokens that are read" : "Tokens that are written";
    setText(legend, page.name === "cross" ? whose : "Tokens");
    setAttribute(add, "aria-label", list === "tokens" ? "Add a token" : "Add a written token");
    const names = state[list];
    if (rows.children.length !== names.length) rows.replaceChildren(...names.map((_, i) => nameRow(act, list, i)));
    names.forEach((name, i) => drawName(rows.children[i], name, names.length > 1));
  };
  return { element: h("fieldset", { class: "tokens" }, legend, rows, add), draw };
}

function nameRow(act, list, i) {
  const label = { "aria-label": `Token ${i + 1}`, spellcheck: "false", autocomplete: "off", dir: "auto" };
  const input = h("input", { type: "text", ...label });
  const commit = () => {
    const { value, refused } = readName(input.value);
    act.change((state) => (refused ? { refused } : { state: withName(state, list, i, value) }));
  };
  listen(input, { change: commit, keydown: (event) => event.key === "Enter" && input.blur() });
  return h("div", { class: "name" }, input, button("×", {}, () => act.change((state) => withoutToken(state, list, i))));
}

function drawName(row, name, more) {
  const [input, less] = row.children;
  if (input.getRootNode().activeElement !== input) input.value = name;
  setAttribute(less, "aria-label", `Remove ${showToken(name)}`);
  less.disabled = !more;
}

/** The tokens in the reader's order: arrows move one, dragging does too. */
function orderEditor(act) {
  const list = h("ol", { class: "moves" });
  const move = (from, to) => {
    act.change((state) => ({ state: withMoved(state, from, to) }));
    const [back, on] = list.children[to].querySelectorAll("button"), wanted = to > from ? on : back;
    (wanted.disabled ? (to > from ? back : on) : wanted).focus();
  };
  let drawn = "", dragged = -1;
  const drop = (event, place) => {
    event.preventDefault();
    if (dragged >= 0 && dragged !== place) move(dragged, place);
    dragged = -1;
  };
  const dragging = (place) => ({
    dragstart: () => (dragged = place),
    dragover: (event) => event.preventDefault(),
    drop: (event) => drop(event, place),
  });
  const draw = ({ state }) => {
    const shown = JSON.stringify([state.order, state.tokens]);
    if (drawn === shown) return;
    drawn = shown;
    const tokens = permuted(state.tokens, state.order), last = tokens.length - 1;
    list.replaceChildren(...tokens.map((token, place) => moveRow(token, place, last, move, dragging(place))));
  };
  return { element: h("fieldset", { class: "tokens" }, h("legend", {}, "Order of the tokens"), list), draw };
}

function moveRow(token, place, last, move, dragging) {
  const step = (sign, word, to) => {
    const props = { "aria-label": `Move ${showToken(token)} ${word}`, disabled: to < 0 || to > last };
    return button(sign, props, () => move(place, to));
  };
  const name = tokenNode(shorten(showToken(token), LONGEST));
  return h("li", { class: "chip", draggable: "true", listen: dragging },
    step("◀", "back", place - 1), name, step("▶", "on", place + 1));
}
