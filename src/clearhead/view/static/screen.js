// The screen: its panels in their places, and what is asked when something is chosen.

/**
 * Shows a scene in an element.
 * @param {HTMLElement} element
 * @param {{ask: Function, dispose?: Function}} source
 * @param {{state?: string, page?: boolean, said?: (state: string) => void}} [options] `state` to begin with;
 *   `page`: the address and the whole page's keys are ours; `said` is called with every new state
 * @returns {{state: string, set: (state: string) => void, dispose: () => void}}
 */
function mount(element, source, options = {}) {
  const root = openRoot(element, "screen");
  const view = {
    root, options, meta: null, shown: {}, hover: null, parts: [], changed: new Set(), widths: {},
    state: { ...START, ...parseState(options.state ?? "") }, watched: [], theme: "light", colours: {},
  };
  view.given = parseState(options.state ?? "");
  view.undecided = !("layer" in view.given || "head" in view.given);
  view.loader = makeLoader(source, (...came) => arrived(view, ...came), (...went) => failed(view, ...went));
  view.changedState = later(200, () => options.said?.(formatState(view.state)));
  root.append(...layout(view));
  const keys = (event) => pressed(view, event);
  const place = options.page ? document : root;
  hear(place, "keydown", keys);
  const stopTheme = watchTheme(() => applyTheme(view));
  applyTheme(view);
  open(view).catch((error) => complain(view, error.message));
  return {
    get state() { return formatState(view.state); },
    set: (text) => setState(view, text),
    dispose() {
      view.gone = true;
      place.removeEventListener("keydown", keys);
      stopTheme();
      view.watched.forEach((observer) => observer.disconnect());
      forget(view.loader);
      source.dispose?.();
      root.remove();
    },
  };
}

function layout(view) {
  view.live = h("p.unseen", { role: "status", "aria-live": "polite" });
  view.toast = h("p.toast.small", { hidden: true, "aria-hidden": "true" });
  view.complaint = h("p.error", { role: "alert", hidden: true });
  view.busy = h("p.notice.busy", { role: "status", hidden: true });
  view.help = helpDialog();
  const side = h("div.side", rowPanel(view), effectPanel(view), lensPanel(view));
  const heads = h("div.left", overviewPanel(view), pairPanel(view));
  part(view, "row stack layer head query key", () => sayWhere(view));
  return [toolbar(view), view.complaint, view.busy,
    h("main", heads, matrixPanel(view), textPanel(view), side), view.live, view.toast, view.help];
}

/** Asks for the scene's description, and shows it. */
async function open(view) {
  forget(view.loader);
  const { head } = await view.loader.source.ask("meta", {});
  if (head.version !== 1) throw new Error(`This scene is of version ${head.version}, this page reads 1; make it again.`);
  if (!head.stacks.some((stack) => !stack.missing)) throw new Error("This scene has no attention to show.");
  const first = view.meta === null;
  view.meta = head;
  view.tokens = fromEntries(entries(head.tokens).map(([name, tokens]) => [name, readableTokens(tokens, head.running?.[name])]));
  assign(view, { shown: {}, hover: null, strongest: 0, pooled: false, swept: null });
  const begun = clampState(view.state, head);
  const where = freshStack(view, begun.stack);
  view.undecided = first && !("layer" in view.given || "head" in view.given);
  view.state = first && "query" in view.given ? begun : clampState({ ...begun, query: where.query, key: null }, head);
  touch(view, "meta", ...Object.keys(view.state));
  refresh(view);
}

/** Asks for all that the choice needs and the screen does not have yet. */
function refresh(view) {
  const { stack, query } = view.state;
  const head = headNow(view);
  want(view, "overview", "overview", { stack });
  want(view, "image", "image", view.pooled ? { ...head, pooled: true } : head);
  want(view, "row", "row", { ...head, query });
  if (view.state.key !== null || rowNow(view)) askTile(view);
  askPair(view);
  askLens(view);
  askEffect(view);
}

function arrived(view, slot, answer, args) {
  if (view.gone) return;
  view.shown[slot] = { ...answer, args };
  touch(view, slot);
  if (slot === "row") [askTile, askPair].forEach((ask) => ask(view));
  if (slot === "overview") overviewArrived(view, answer.head);
}

/** Long texts are gone through little by little: each answer brings the statistics further. */
function overviewArrived(view, head) {
  if (view.undecided) {
    view.undecided = false;
    choose(view, tellingHead(view, head));
  }
  if (head.done) return;
  view.loader.wanted.overview = null;
  want(view, "overview", "overview", { stack: view.state.stack }, imageNow(view) ? 250 : 2000); // the picture first
}

function failed(view, slot, error) {
  if (view.gone) return;
  view.shown[slot] = null;
  complain(view, error.message);
  touch(view, slot, "failed");
}

/** Another state from outside: an address, or a notebook. */
function setState(view, text) {
  if (text === formatState(view.state)) return;
  const given = parseState(text);
  if (view.meta === null) view.given = given;
  if (view.meta === null) view.state = { ...view.state, ...given };
  else choose(view, { key: null, ...given });
}

/** Takes over the theme of the host or the choice by hand, and its colours for the canvases. */
function applyTheme(view) {
  const theme = view.state.theme === "auto" ? hostTheme() : view.state.theme;
  if (view.theme === theme && view.colours.page) return;
  view.theme = theme;
  view.root.dataset.theme = theme;
  view.colours = readColours(view.root);
  touch(view, "theme");
}
