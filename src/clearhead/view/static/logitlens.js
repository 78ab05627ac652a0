// The logit lens at the query: what each layer's residual would say if it were the last.

function lensPanel(view) {
  const title = h("h2", "Logit lens");
  const note = h("p.small.soft");
  const body = h("div.scroll");
  const element = panel("lens-panel", "Logit lens", title, note, body);
  part(view, "lens query stack meta failed", () => fillLens(view, title, note, body));
  part(view, "meta", () => void (element.hidden = !view.meta.can.lens.length));
  return element;
}

/** The stack that the lens reads: across, the decoder. */
const lensStack = (view) => (view.state.stack === "cross" ? "decoder" : view.state.stack);
const lensAllowed = (view) => view.meta.can.lens.includes(lensStack(view));

function askLens(view) {
  if (lensAllowed(view)) want(view, "lens", "lens", { stack: lensStack(view), query: view.state.query }, 120);
}

function fillLens(view, title, note, body) {
  const { query } = view.state;
  put(title, "Logit lens at ", tokenNode(queryLabel(view, query), "q"));
  if (!lensAllowed(view)) {
    put(body);
    return setText(note, "This stack has no head that names tokens.");
  }
  if (!isCurrent(view, "lens", { stack: lensStack(view), query })) return setText(note, "…");
  const { layers } = view.shown.lens.head;
  setText(note, "Each layer's residual read as if it were the last; rank and p of the token that really follows.");
  const rows = layers.map((layer) => [
    typeof layer.layer === "number" ? `L${layer.layer}` : layer.layer,
    h("span.guesses", ...layer.top.map((guess, i) => guessNode(guess, i === 0))),
    layer.rank === null ? "–" : count(layer.rank),
    layer.p === null ? "–" : percent(layer.p),
  ]);
  put(body, tableOf("", ["layer", "likeliest", "rank", "p"], rows));
}

function guessNode({ token, p }, first) {
  return h("span.guess", { title: percent(p) },
    tokenNode(shorten(showToken(token), 14), first ? "here" : "soft"), h("span.small.soft", ` ${percent(p)}`));
}
