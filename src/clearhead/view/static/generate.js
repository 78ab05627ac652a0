// With a model behind the page: another text, and writing on, token by token.

function anotherText(view) {
  const area = h("textarea", { rows: 3, label: "Another text", maxlength: 20000 });
  const target = h("textarea", { rows: 2, label: "What the decoder is to write", maxlength: 20000 });
  const both = h("div.small.soft", { hidden: true }, "what the decoder is to write (empty: what it writes itself)", target);
  const go = button("Look", {}, () => lookAt(view, area.value, target.value));
  const form = h("details.another", h("summary", "Look at another text"), area, both, go);
  hear(area, "keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) lookAt(view, area.value, target.value);
  });
  part(view, "meta", () => {
    form.hidden = !view.meta.can.look;
    both.hidden = Boolean(stackOfMeta(view.meta, "cross").missing);
  });
  return h("div.live", stepControls(view), form);
}

function lookAt(view, text, to) {
  return renew(view, "look", to.trim() ? { text, to } : { text }, "Reading the text …");
}

function stepControls(view) {
  const result = h("span.steps");
  const one = button("Next token", { title: "G" }, () => stepOn(view, 1));
  const ten = button("Next 10", {}, () => stepOn(view, 10));
  const bar = h("div.steps", { hidden: true }, one, ten, result);
  part(view, "meta", () => void (bar.hidden = !view.meta.can.step));
  part(view, "step renewing", () => {
    one.disabled = ten.disabled = Boolean(view.renewing);
    sayStep(view.step, result);
  });
  return bar;
}

function sayStep(step, result) {
  if (!step) return put(result);
  const guess = ({ token, p }) => h("span.chip.small", tokenNode(showToken(token)), ` ${percent(p)}`);
  put(result, step.done ? "The text has ended. Last: " : "Written: ", tokenNode(showToken(step.token), "here"),
    " out of ", ...(step.top ?? []).slice(0, 5).flatMap((one) => [guess(one), " "]));
}

async function stepOn(view, count) {
  if (!view.meta.can.step || view.renewing) return;
  const head = await renew(view, "step", { count }, "Writing …");
  if (!head) return;
  view.step = head;
  touch(view, "step");
}

/** Asks for another scene, then shows it; returns the answer's head, or null where it failed. */
async function renew(view, op, args, saying) {
  renewing(view, saying);
  try {
    const { head } = await view.loader.source.ask(op, args);
    await open(view);
    return head;
  } catch (error) {
    complain(view, error.message);
    return null;
  } finally {
    renewing(view, "");
  }
}
