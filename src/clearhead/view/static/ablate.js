// Switching heads off: what the model says then, against what it said before.

function ablateControls(view) {
  const how = h("select", { label: "What a switched-off head gives" },
    h("option", { value: "zero" }, "zero"), h("option", { value: "mean" }, "its mean"));
  const act = button("Ablate", { title: "Switch this head off (X)" }, () => toggleAblation(view, how.value));
  const element = h("span.ablate", act, how);
  hear(how, "change", () => currentAblation(view) && setAblation(view, how.value));
  part(view, "stack layer head ablated meta", () => {
    const now = currentAblation(view);
    setText(act, now ? "Ablated" : "Ablate");
    press(act, now);
    if (now) how.value = now.how;
    element.hidden = !view.meta.can.ablate;
  });
  return element;
}

const currentAblation = (view) => isAblated(view, view.state.layer, view.state.head);
const otherAblations = (view) => view.state.ablated.filter((one) => one !== currentAblation(view));

function setAblation(view, how) {
  if (otherAblations(view).length >= MOST_ABLATED) return complain(view, `At most ${MOST_ABLATED} heads at once.`);
  choose(view, { ablated: [...otherAblations(view), { ...headNow(view), how }] });
}

function toggleAblation(view, how) {
  if (!view.meta.can.ablate) return;
  if (currentAblation(view)) choose(view, { ablated: otherAblations(view) });
  else setAblation(view, how);
}

/** The stack that the model's words come from, and where one is in it: from the encoder, at its end. */
const lastStack = (view) => (view.tokens.decoder ? "decoder" : "encoder");
const placeInLast = (view) =>
  stackNow(view).query_tokens === lastStack(view) ? view.state.query : view.tokens[lastStack(view)].length - 1;

/** Asks what the ablated model says at the query; a newer wish stops the older one. */
function askEffect(view) {
  const { ablated } = view.state;
  if (ablated.length) return want(view, "effect", "ablate", { heads: ablated, query: placeInLast(view) }, 60);
  unwant(view, "effect");
  if (!view.shown.effect) return;
  view.shown.effect = null;
  touch(view, "effect");
}

function effectPanel(view) {
  const body = h("div");
  const element = panel("effect-panel", "Effect of the ablation",
    h("h2", "Effect of ablation"), body);
  part(view, "effect ablated meta query", () => fillEffect(view, body));
  part(view, "meta", () => void (element.hidden = !view.meta.can.ablate));
  return element;
}

function fillEffect(view, body) {
  const { ablated } = view.state;
  if (!ablated.length) return put(body, h("p.small.soft", "Switch a head off to see what changes."));
  const off = h("p.offlist", ...ablated.flatMap((one) => [offButton(view, one), " "]));
  const answer = view.shown.effect;
  const asked = view.loader.wanted.effect;
  const late = asked && !(answer && asked === `ablate ${sortedJson(answer.args)}`);
  put(body, off, late ? h("p.late.small.soft", "computing …") : "", ...(answer ? effectParts(view, answer.head) : []));
}

function offButton(view, one) {
  const name = `${one.stack} ${headName(one.layer, one.head)} → ${one.how}`;
  const rest = view.state.ablated.filter((other) => other !== one);
  const props = { class: "small-button", label: `switch ${name} on again` };
  return button(`${name} ✕`, props, () => choose(view, { ablated: rest }));
}

/** The token that really follows, the likeliest tokens before and after, and the heads that moved. */
function effectParts(view, { target, before, after, kl, moved }) {
  const parts = [];
  if (target) {
    const change = Math.log(target.after) - Math.log(target.before);
    parts.push(h("p", "what follows, ", tokenNode(showToken(target.token), "here"),
      `: ${percent(target.before)} → ${percent(target.after)}`,
      h("span", { class: change < 0 ? "less" : "more" }, ` Δ log p ${isFinite(change) ? signed(change, 2) : "−∞"}`)));
  }
  if (kl !== null) parts.push(h("p.small.soft", `KL(before ‖ after) ${signed(kl, 4)} bits`));
  parts.push(beforeAfter(before, after), movedLine(view, moved));
  return parts;
}

function beforeAfter(before, after) {
  const p = (list, id) => list.find((guess) => guess.id === id)?.p;
  const known = [...before, ...after.filter((guess) => p(before, guess.id) === undefined)];
  const side = (value, kind) => (value === undefined ? "–" : h("span", bar(value, kind), ` ${percent(value)}`));
  const rows = known.map(({ token, id }) => [
    tokenNode(shorten(showToken(token), 16)), side(p(before, id), "was"), side(p(after, id), "is")]);
  return h("div.beforeafter", tableOf("Likeliest next tokens", ["token", "before", "after"], rows));
}

function movedLine(view, moved) {
  const heads = [];
  for (const [stack, layers] of entries(moved)) {
    layers.forEach((values, layer) => values.forEach((value, head) => {
      if (value > MOVED) heads.push({ stack, layer, head, value });
    }));
  }
  heads.sort((a, b) => b.value - a.value);
  const where = (one) => (one.stack === view.state.stack ? "" : `${one.stack} `);
  const entry = (one) => pill(`${where(one)}${headName(one.layer, one.head)} ${percent(one.value)}`,
    () => choose(view, { stack: one.stack, layer: one.layer, head: one.head }));
  if (!heads.length) return h("p.small.soft", `No other head's weights move by more than ${percent(MOVED)}.`);
  const most = heads.slice(0, 6).flatMap((one) => [entry(one), " "]);
  return h("p.small", `${plural(heads.length, "head")} moved (dots): `, ...most);
}
