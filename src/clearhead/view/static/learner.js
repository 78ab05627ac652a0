// The learner's screen: four pages, one state, drawn anew after every change.

/** @param {HTMLElement} element an empty one @param {object} lesson what view/learner.py gives */
function mountLearner(element, lesson) {
  const root = openRoot(element, "learner");
  const screen = { root, lesson, state: readAddress(location.hash, lesson), problem: "", speaking: 0, writing: 0 };
  const parts = makeParts(screen);
  screen.parts = parts;
  root.append(parts.head.element, parts.steps.element, parts.main, parts.live);
  addEventListener("keydown", (event) => pressedKey(screen, event));
  addEventListener("popstate", () => goBack(screen));
  watchTheme(() => draw(screen));
  draw(screen);
}

/** What the address says now; the other pages stay at their steps, which it does not tell. */
function goBack(screen) {
  const state = readAddress(location.hash, screen.lesson);
  screen.state = { ...state, steps: { ...screen.state.steps, [state.page]: state.steps[state.page] } };
  screen.problem = "";
  draw(screen);
}

function makeParts(screen) {
  const board = makeBoard({
    choose: (cell, hover) => choose(screen, cell, hover),
    open: (step, cell) => toStep(screen, step, cell),
    typed: (cell, text, done) => typedNumber(screen, cell, text, done),
    controls: (names) => controls.of(names),
  });
  const controls = makeControls({ change: (make) => tryChange(screen, make) }, screen.lesson);
  const line = makeLine({ point: board.point, go: (cell) => board.focus(cell) });
  const code = makeCode(screen.lesson), broken = makeBreak({ breakIt: (id) => breakIt(screen, id) });
  const panel = h("div", { role: "tabpanel", id: "page", "aria-label": "The lesson" }, board.element, line.element,
    h("div", { class: "under" }, code.element, h("div", {}, broken.element, board.below)));
  const live = h("div", { class: "unseen", "aria-live": "polite" }), head = makeHead(screen), steps = makeSteps(screen);
  return { board, controls, line, code, broken, head, steps, main: h("main", {}, panel), live };
}

function draw(screen) {
  const { parts, state, lesson } = screen, view = seen(state, lesson);
  view.theme = state.theme === "auto" ? hostTheme() : state.theme;
  screen.view = view;
  screen.root.dataset.theme = view.theme;
  document.documentElement.style.setProperty("color-scheme", view.theme);
  document.documentElement.style.setProperty("background", view.theme === "dark" ? "#0f1117" : "#ffffff");
  parts.head.draw(view);
  parts.steps.draw(view);
  parts.controls.draw(view);
  parts.board.draw(view);
  parts.line.draw(view, screen.problem);
  parts.code.draw(view);
  parts.broken.draw(view);
}

/**
 * A new state: drawn at once, written into the address, spoken after a moment. past: one to go back to; problem: what
 * is still to be read of an earlier refusal.
 */
function change(screen, state, { past = false, words = "", problem = "" } = {}) {
  screen.state = state;
  screen.problem = problem;
  draw(screen);
  clearTimeout(screen.writing);
  if (past) history.pushState(null, "", addressOf(screen));
  else screen.writing = setTimeout(() => history.replaceState(null, "", addressOf(screen)), 150);
  if (words) speak(screen, words);
}

const addressOf = (screen) => `#${writeAddress(screen.state, screen.lesson)}`;

function speak(screen, words) {
  clearTimeout(screen.speaking);
  screen.speaking = setTimeout(() => setText(screen.parts.live, words), 250);
}

function refuse(screen, words) {
  screen.problem = words;
  draw(screen);
}

/** `make(state)` gives {state} or {refused}. */
function tryChange(screen, make) {
  const { state, refused } = make(screen.state);
  if (refused) refuse(screen, refused);
  else change(screen, state, { words: summary(screen) });
}

const summary = (screen) => `Changed. ${screen.view.page.steps[screen.view.step].title}.`;

function choose(screen, cell, hover = false) {
  const now = screen.state.cell;
  if (now && cellKey(now) === cellKey(cell)) return;
  change(screen, { ...screen.state, cell }, { problem: screen.problem });
  if (!hover && inside(screen.view, cell)) speak(screen, spoken(screen.view, cell));
}

function toStep(screen, step, cell = null) {
  const { state, view } = screen, to = Math.min(Math.max(step, 0), view.page.steps.length - 1);
  if (to === view.step && !cell) return;
  const { title, words } = view.page.steps[to], steps = { ...state.steps, [state.page]: to };
  const said = `Step ${nth(to)} of ${view.page.steps.length}, ${title}. ${words}`;
  change(screen, { ...state, steps, cell: cell ?? firstOf(view, to) }, { past: true, words: said });
}

/** The last row of the first matrix that a step opens: in the lesson, "sat" looking at "cat". */
function firstOf(view, step) {
  const matrix = [...view.matrices.values()].find(({ at, edit }) => at === step && (!edit || step === 0));
  return matrix ? { name: matrix.name, i: matrix.size[0] - 1, j: Math.min(1, matrix.size[1] - 1) } : view.state.cell;
}

function toPage(screen, page) {
  if (page !== screen.state.page) change(screen, { ...screen.state, page, mistake: "", cell: null }, { past: true });
}

function breakIt(screen, id) {
  const state = withMistake(screen.state, id, screen.view.page);
  change(screen, state, { past: true });
  const { broken } = screen.view;
  speak(screen, broken ? `${broken.says} ${judged(screen.view).verdict}` : "No mistake.");
}

/** Whether the text is a number. What is not is said, and changes nothing. */
function typedNumber(screen, cell, text, done) {
  const { value, refused } = readNumber(text);
  if (refused) {
    const kept = screen.view.matrices.get(cell.name).values[cell.i][cell.j];
    refuse(screen, done ? `${refused} The cell keeps ${short(kept)}.` : refused);
    return false;
  }
  const row = screen.state.page === "order" && cell.name === "X" ? screen.state.order[cell.i] : cell.i;
  change(screen, withNumber(screen.state, cell.name, row, cell.j, value));
  return true;
}

/** ← and → go from step to step, 1 to 7 to a step, wherever they have no other meaning. */
function pressedKey(screen, event) {
  const target = event.composedPath()[0], tag = target.tagName;
  const taken = ["INPUT", "SELECT", "TEXTAREA"].includes(tag) || target.role === "tab";
  if (taken || event.ctrlKey || event.metaKey || event.altKey) return;
  const { step } = screen.view;
  const does = {
    ArrowRight: () => toStep(screen, step + 1), ArrowLeft: () => toStep(screen, step - 1),
    "[": () => toStep(screen, step - 1), "]": () => toStep(screen, step + 1), d: () => turnTheme(screen),
    "?": () => screen.parts.head.help(),
  }[event.key] ?? (/^[1-7]$/.test(event.key) ? () => toStep(screen, Number(event.key) - 1) : null);
  if (!does) return;
  event.preventDefault();
  does();
}

function turnTheme(screen) {
  const next = THEMES[(THEMES.indexOf(screen.state.theme) + 1) % THEMES.length];
  change(screen, { ...screen.state, theme: next }, { words: `Theme: ${next}.` });
}
