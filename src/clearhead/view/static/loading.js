// Fetching: each slot of the screen wants one answer; a newer wish stops the older, and answers are kept.

const KEPT = 400;
const KEEPS = new Set(["image", "row", "tile", "pair", "lens"]);

/** @param {{ask: Function}} source */
function makeLoader(source, arrived, failed) {
  return { source, arrived, failed, wanted: {}, stops: {}, timers: {}, kept: new Map() };
}

/** A new text: nothing that was kept is true any more. */
function forget(loader) {
  for (const stop of Object.values(loader.stops)) stop.abort();
  Object.values(loader.timers).forEach(clearTimeout);
  assign(loader, { wanted: {}, stops: {}, timers: {}, kept: new Map() });
}

/**
 * Asks for what a slot is to show, unless it is what was last asked; `arrived(slot, answer, args)` is called with it.
 * @param {number} [delay] milliseconds to wait for a newer wish first
 */
function want({ loader }, slot, op, args, delay = 0) {
  const key = `${op} ${sortedJson(args)}`;
  if (loader.wanted[slot] === key) return;
  loader.wanted[slot] = key;
  clearTimeout(loader.timers[slot]);
  loader.stops[slot]?.abort();
  if (loader.kept.has(key)) return void loader.arrived(slot, loader.kept.get(key), args);
  loader.timers[slot] = setTimeout(() => fetchInto(loader, slot, key, op, args), delay);
}

/** Makes a slot want nothing. */
function unwant({ loader }, slot) {
  loader.wanted[slot] = null;
  clearTimeout(loader.timers[slot]);
  loader.stops[slot]?.abort();
}

async function fetchInto(loader, slot, key, op, args) {
  const stop = new AbortController();
  loader.stops[slot] = stop;
  const current = () => loader.wanted[slot] === key && !stop.signal.aborted;
  try {
    const answer = await loader.source.ask(op, args, { signal: stop.signal });
    if (KEEPS.has(op)) keep(loader, key, answer);
    if (current()) loader.arrived(slot, answer, args);
  } catch (error) {
    if (!current()) return;
    loader.wanted[slot] = null;
    loader.failed(slot, error, args);
  }
}

function keep(loader, key, answer) {
  loader.kept.set(key, answer);
  if (loader.kept.size > KEPT) loader.kept.delete(loader.kept.keys().next().value);
}
