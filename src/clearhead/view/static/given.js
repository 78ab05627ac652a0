// A page that is one file: what it is given, what its address says, and its one state, drawn anew after every change.

/** What stands in the page under this name; its numbers, deflated there, as `bytes`. */
async function readGiven(name) {
  const given = JSON.parse(document.getElementById(name).textContent);
  const packed = Uint8Array.from(atob(given.data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return { ...given, bytes: await new Response(stream).arrayBuffer() };
}

/** What the address says; nothing if it is of another version. */
function readHash() {
  const found = new URLSearchParams(location.hash.slice(1));
  return found.get("v") === "1" ? found : new URLSearchParams();
}

/** In a notebook's frame there is no history: then the address stays as it is. */
function writeHash(words) {
  try {
    history.replaceState(null, "", `#${new URLSearchParams({ v: 1, ...words })}`);
  } catch {
    return;
  }
}

const inside = (value, size) => min(max(value, 0), size - 1);

/** A place that the address names, or the first, among `size`. */
function placeIn(found, name, size, other = 0) {
  const text = found.get(name) ?? "";
  return /^\d{1,5}$/.test(text) ? inside(Number(text), size) : inside(other, size);
}

const themeIn = (found) => (THEMES.includes(found.get("t")) ? found.get("t") : "auto");

/**
 * @param {HTMLElement} element an empty one
 * @param {string} name the class of the screen
 * @param {{read: (found: URLSearchParams) => object, words: (state: object) => object, draw: () => void}} does
 * @returns {object} with the state, and `change(changes, spoken)`
 */
function makeScreen(element, name, { read, words, draw }) {
  const root = openRoot(element, name);
  const live = h("div.unseen", { role: "status", "aria-live": "polite" });
  const screen = { root, live, state: read(readHash()), theme: "", colours: {}, draw: () => drawScreen(screen, draw) };
  let [writing, speaking] = [0, 0];
  screen.change = (changes, spoken = "") => {
    assign(screen.state, changes);
    screen.draw();
    clearTimeout(writing);
    writing = setTimeout(() => writeHash(words(screen.state)), 150);
    clearTimeout(speaking);
    if (spoken) speaking = setTimeout(() => setText(live, spoken), 250);
  };
  hear(window, "hashchange", () => {
    screen.state = read(readHash());
    screen.draw();
  });
  watchTheme(screen.draw);
  new ResizeObserver(() => requestAnimationFrame(screen.draw)).observe(root);
  return screen;
}

function drawScreen(screen, draw) {
  const { root, state } = screen;
  const theme = state.theme === "auto" ? hostTheme() : state.theme;
  if (theme !== screen.theme) {
    root.dataset.theme = screen.theme = theme;
    screen.colours = readColours(root);
    const { style } = document.documentElement;
    style.setProperty("color-scheme", theme);
    style.setProperty("background", screen.colours.page);
  }
  draw();
}

/** Light, dark, or as the system has it. */
function themeButton(screen) {
  const turn = () => {
    const theme = THEMES[(THEMES.indexOf(screen.state.theme) + 1) % THEMES.length];
    screen.change({ theme }, `Theme: ${theme}.`);
  };
  const found = button("", { class: "theme" }, turn);
  return { element: found, turn, draw: () => setText(found, `Theme: ${screen.state.theme}`) };
}

/** Single letters do something wherever nobody writes. */
function listenToLetters(letters) {
  hear(window, "keydown", (event) => {
    const { tagName, type } = event.composedPath()[0];
    const taken = ["INPUT", "SELECT", "TEXTAREA"].includes(tagName) && type !== "range";
    if (taken || event.ctrlKey || event.metaKey || event.altKey || !hasOwn(letters, event.key)) return;
    event.preventDefault();
    letters[event.key]();
  });
}
