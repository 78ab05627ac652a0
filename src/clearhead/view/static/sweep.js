// Each head of the stack switched off once, one after the other: what that changes, at every place of the text.

/** The name of this number among the statistics of heads; it is known of what follows a query. */
const CHANGE = "change_of_log_p";
const statisticsOf = (meta, stack) => [...meta.statistics[stack], ...(meta.can.ablate ? [CHANGE] : [])];

const sweptNow = (view) => (view.swept?.stack === view.state.stack ? view.swept : null);

/** A head's number of this name; null if it is not known. */
function numberOf(view, name, layer, head) {
  if (name !== CHANGE) return view.shown.overview.head.statistics[name]?.[layer]?.[head] ?? null;
  const change = sweptNow(view)?.changes[layer][head]?.[placeInLast(view)];
  return Number.isFinite(change) ? change : null;
}

/** Begins, or stops; another text stops it too. */
async function sweep(view) {
  const { loader: { source, stops }, state: { stack } } = view;
  if (sweptNow(view)?.going) return stops.sweep.abort();
  stops.sweep?.abort();
  const stop = stops.sweep = new AbortController();
  const swept = view.swept = { stack, going: true, done: 0, changes: stackNow(view).layers.map(() => []) };
  try {
    for (const place of headPlaces(view)) {
      const heads = [{ stack, ...place, how: "zero" }];
      const answer = await source.ask("ablate", { heads, query: placeInLast(view) }, stop);
      if (stop.signal.aborted) break;
      swept.changes[place.layer][place.head] = floatsOf(answer);
      swept.done++;
      touch(view, "swept");
    }
  } catch (error) {
    if (!stop.signal.aborted) complain(view, error.message);
  }
  swept.going = false;
  touch(view, "swept");
}

/** What the button says. */
function sweepWords(view) {
  const all = headPlaces(view).length;
  const swept = sweptNow(view);
  if (swept?.going) return `stop, ${swept.done} of ${all}`;
  return `switch each of ${plural(all, "head")} off once`;
}
