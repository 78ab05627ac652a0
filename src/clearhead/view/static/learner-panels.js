// Under the matrices: where the chosen number comes from, the code of the step, and what breaks when it is broken.

const HINT = "Point at any number, or walk there with Tab and the arrow keys, to see where it comes from.";
const INVITATION = "Choose a mistake that people make. Numbers that change are underlined, the line that makes it "
  + "turns red, and you see which test would have caught it.";

/** The arithmetic of one number; its parts lead back to the cells that they come from. */
function makeLine(act) {
  const words = h("p", { class: "soft" }), parts = h("p", { class: "arithmetic" });
  const refused = h("p", { class: "refused", role: "alert" });
  return {
    element: h("section", { class: "line", "aria-label": "Where the number comes from" }, words, parts, refused),
    draw(view, problem) {
      const cell = inside(view, view.state.cell);
      const found = cell ? explained(view, cell) : { words: [HINT], parts: [] };
      words.replaceChildren(...found.words.map((part) => partNode(part, act)));
      parts.replaceChildren(...found.parts.map((part) => partNode(part, act)));
      setText(refused, problem);
    },
  };
}

function partNode(part, act) {
  if (typeof part === "string") return document.createTextNode(part);
  if (part.token !== undefined) return h("span", {}, "“", tokenNode(showToken(part.token)), "”");
  if (part.up) return h("sup", {}, partNode(part.up, act));
  return part.result === undefined ? refButton(part, act) : h("strong", {}, part.result);
}

/** A number that shows its cell while it is pointed at, and leads there. */
function refButton(part, act) {
  const cell = { name: part.name, i: part.i, j: part.j };
  const show = () => act.point(cell, true), hide = () => act.point(cell, false);
  const listen = { pointerenter: show, pointerleave: hide, focus: show, blur: hide };
  const props = { class: `ref ${part.role}`, "aria-label": `${part.text}, from ${part.name}`, listen };
  return button(part.text, props, () => {
    hide();
    act.go(cell);
  });
}

/** The formulas themselves, the lines of this step marked; with a mistake, the line that makes it. */
function makeCode(lesson) {
  const code = h("pre", { tabIndex: 0, role: "region", "aria-label": "The code of these steps" });
  const caption = h("p", { class: "soft small" });
  return {
    element: h("section", { class: "code", "aria-label": "Code" }, code, caption),
    draw(view) {
      const blocks = lesson.code[view.page.name].filter((block) => shownBlock(view, block));
      code.replaceChildren(...blocks.flatMap((block) => blockLines(view, block)));
      const from = [...new Set(blocks.map(({ file }) => file))].join(" and ");
      setText(caption, `The code itself, cut out of ${from}: it computes the lesson's numbers.`);
    },
  };
}

/** softmax and causal_mask are opened at their own step, or when the mistake is in them. */
function shownBlock(view, block) {
  if (!["softmax", "causal_mask"].includes(block.name)) return true;
  const keys = block.lines.map(([name]) => `${block.name}.${name}`);
  return keys.some((key) => view.page.code[key] === view.step || Object.hasOwn(view.broken?.lines ?? {}, key));
}

function blockLines(view, block) {
  const lines = block.lines.flatMap(([name, code]) => {
    const key = `${block.name}.${name}`, wrong = view.broken?.lines?.[key];
    const kind = { class: view.page.code[key] === view.step ? "on" : "" };
    if (wrong === undefined) return [h("span", kind, `${code}\n`)];
    return [h("del", kind, `${code}\n`), wrong && h("ins", kind, `${wrong}\n`)];
  });
  return [h("span", { class: "soft" }, `${block.head}\n`), ...lines.filter(Boolean)];
}

/** Mistakes that people make, made on purpose. */
function makeBreak(act) {
  const choose = { change: () => act.breakIt(select.value) };
  const select = h("select", { "aria-label": "Choose a mistake", listen: choose });
  const head = h("div", { class: "choose" }, h("h2", {}, "Break it on purpose"), select);
  const body = h("div", { class: "body" });
  const element = h("section", { class: "card", "aria-label": "Break it on purpose" }, head, body);
  let filled = "";
  return {
    element,
    draw(view) {
      element.hidden = view.page.mistakes.length === 0;
      if (element.hidden) return;
      if (filled !== view.page.name) select.replaceChildren(...options(view));
      filled = view.page.name;
      select.value = view.state.mistake;
      body.replaceChildren(...(view.broken ? mistakeTold(view) : [h("p", { class: "says" }, INVITATION)]));
    },
  };
}

/** By the step in which a mistake shows first. */
function options(view) {
  const stepOf = ({ step }) => (view.matrices.get(step) ?? view.matrices.get(`${step}0`)).at;
  const option = ({ id }) => h("option", { value: id }, id.replaceAll("-", " "));
  const groups = view.page.steps.map(({ title }, n) => {
    const here = view.page.mistakes.filter((mistake) => stepOf(mistake) === n);
    return here.length ? h("optgroup", { label: title }, ...here.map(option)) : null;
  });
  return [h("option", { value: "" }, "no mistake"), ...groups.filter(Boolean)];
}

function mistakeTold(view) {
  const { broken } = view, { checks, verdict: words } = judged(view);
  const sign = ({ holds, skipped }) => h("span", { "aria-hidden": "true" }, skipped ? "–" : holds ? "✓" : "✗");
  const check = (one) => h("li", { class: one.holds ? "holds" : "breaks" }, sign(one), ` ${one.words}`);
  return [
    h("p", { class: "says" }, h("code", {}, broken.id), ` ${broken.says}`),
    checks.length > 0 && h("ul", { class: "checks" }, ...checks.map(check)),
    h("p", {}, h("strong", {}, words), " ", h("code", {}, "clearhead check"), " names it by this id."),
    h("p", { class: "soft" }, `Fix: ${broken.fix}`),
  ].filter(Boolean);
}
