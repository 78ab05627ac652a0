// The top of the screen: the pages as tabs, what concerns all of them, and the steps of the page.

const TITLES = { attention: "Attention", heads: "Two heads", order: "Order", cross: "Cross-attention" };
const THEME_NAMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const KEYS = [
  ["← →", "one step back or on; [ and ] inside a matrix"],
  ["1 … 7", "to that step"],
  ["Tab", "from matrix to matrix; arrow keys walk inside one"],
  ["Enter", "opens a “?”, or changes a number of X or W: then ↑ ↓ for 0.1 more or less, Esc for the old one"],
  ["d", "light, dark, or as the system has it"],
  ["?", "this list"],
];

function makeHead(screen) {
  const tabs = LESSON_PAGES.map((name) =>
    button(TITLES[name], { role: "tab", "aria-controls": "page" }, () => toPage(screen, name)));
  const walk = { keydown: (event) => walkTabs(screen, tabs, event) };
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": "Pages", listen: walk }, ...tabs);
  const over = button("Start over", { class: "quiet" }, () => startOver(screen));
  const theme = button("", { class: "quiet" }, () => turnTheme(screen)), keys = keysList();
  const tools = h("span", { class: "tools" }, over, copyButton(), theme, keys);
  return {
    element: h("header", {}, h("h1", {}, "clearhead"), list, tools),
    help: () => (keys.open = !keys.open),
    draw({ state }) {
      tabs.forEach((tab, n) => {
        setAttribute(tab, "aria-selected", String(LESSON_PAGES[n] === state.page));
        tab.tabIndex = LESSON_PAGES[n] === state.page ? 0 : -1;
      });
      setText(theme, THEME_NAMES[state.theme]);
      setAttribute(theme, "aria-label", `Theme: ${state.theme}`);
    },
  };
}

function startOver(screen) {
  change(screen, resetState(screen.state, screen.lesson), { past: true, words: "The lesson’s own numbers again." });
}

function copyButton() {
  const copy = button("Copy link", { class: "quiet" }, async () => {
    setText(copy, (await copyText(location.href)) ? "Copied" : "See the address");
    setTimeout(() => setText(copy, "Copy link"), 1500);
  });
  return copy;
}

function keysList() {
  const rows = KEYS.flatMap(([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)]);
  return h("details", { class: "keys" }, h("summary", { "aria-label": "Keys" }, "?"), h("dl", {}, ...rows));
}

function walkTabs(screen, tabs, event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const next = (LESSON_PAGES.indexOf(screen.state.page) + by + LESSON_PAGES.length) % LESSON_PAGES.length;
  toPage(screen, LESSON_PAGES[next]);
  tabs[next].focus();
}

/** Words that a narrow screen leaves out. */
const label = (words) => h("span", { class: "label" }, words);

function makeSteps(screen) {
  const list = h("ol", { class: "pills" }), words = h("p", { class: "say" }), title = h("h2", { class: "unseen" });
  const by = (step) => () => toStep(screen, screen.view.step + step);
  const back = button(h("span", {}, "←", label(" Back")), { "aria-label": "Back" }, by(-1));
  const next = button(h("span", {}, label("Next "), "→"), { "aria-label": "Next" }, by(1));
  const walk = h("span", { class: "walk" }, back, next);
  let built = "";
  return {
    element: h("nav", { class: "steps", "aria-label": "Steps" }, title, list, walk, words),
    draw({ page, step }) {
      const pills = () => page.steps.map(({ title: name }, n) => stepPill(screen, name, n));
      if (built !== page.name) list.replaceChildren(...pills());
      built = page.name;
      [...list.children].forEach((item, n) => {
        setAttribute(item.firstChild, "aria-current", n === step ? "step" : null);
        item.firstChild.className = n < step ? "done" : "";
      });
      setText(title, `${page.title}, step ${nth(step)} of ${page.steps.length}`);
      setText(words, page.steps[step].words);
      back.disabled = step === 0;
      next.disabled = step === page.steps.length - 1;
    },
  };
}

function stepPill(screen, name, n) {
  const words = h("span", {}, h("b", {}, nth(n)), label(` ${name}`));
  return h("li", {}, button(words, { "aria-label": `Step ${nth(n)}: ${name}` }, () => toStep(screen, n)));
}
