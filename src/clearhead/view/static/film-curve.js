// Curves over the steps: one statistic of every head, the chosen head's in front, and the loss below on the same axis.

const CURVE = { left: 46, right: 14, top: 20, tall: 190, gap: 26, loss: 90, bottom: 24 };
const LOGARITHMIC = 30; // from so many times the first step on, steps stand on a logarithmic axis

function curvePanel(screen) {
  const choose = () => screen.choose({ statistic: choice.value });
  const choice = h("select", { label: "Statistic", listen: { change: choose } });
  const place = h("div");
  const said = h("p.small.soft");
  const table = tableBehind("The curves as a table", () => curveTable(screen));
  const element = h("section.panel.curves", { label: "Over training" },
    h("div.title", h("h2", "Over training"), choice), said, place, table);
  return { element, draw: () => drawCurves(screen, { choice, place, said, table }) };
}

function drawCurves(screen, { choice, place, said, table }) {
  const { given, state } = screen;
  const names = Object.keys(partAt(given, state, 0).statistics);
  if (choice.length !== names.length || choice.options[0].value !== names[0] || choice.dataset.part !== state.part) {
    put(choice, ...names.map((value) => h("option", { value }, statisticWord(value))));
    choice.dataset.part = state.part;
  }
  choice.value = state.statistic;
  const { layer, head, step } = state;
  const curves = curvesOf(given, state, state.statistic);
  const now = curves[layer][head][step];
  const what = `${statisticWord(state.statistic)} ${statisticNumber(state.statistic, now)}`;
  const where = `Layer ${layer} head ${head} at step ${count(given.steps[step])}`;
  setText(said, `${where}: ${what}. Other heads are thin; below, the loss.`);
  put(place, curveChart(screen, curves, inside(place.clientWidth || 640, 801)));
  table.refresh();
}

/** Where steps lie: from the first to the last that is known of anything. */
function stepAxis({ steps, loss }, width) {
  const [first, last] = [steps[0], max(steps[steps.length - 1], loss.length ? loss[loss.length - 1][0] : 0)];
  const from = min(first, loss.length ? loss[0][0] : first);
  const bent = last / max(from, 1) >= LOGARITHMIC;
  const place = (step) => (bent ? Math.log(max(step, 1)) : step);
  const room = width - CURVE.left - CURVE.right;
  const [low, high] = [place(from), place(last)];
  const span = high - low || 1;
  const marks = bent ? [1, 2, 3, 4, 5, 6].map((power) => 10 ** power) : ticks(last + 1, 5);
  return {
    at: (step) => CURVE.left + (room * (place(step) - low)) / span,
    back: (x) => (bent ? Math.exp : Number)(low + (span * (x - CURVE.left)) / room),
    marks: [...new Set([...marks.filter((mark) => mark >= from && mark <= last), last])],
  };
}

/** A scale for some numbers. */
function heightAxis(values, top, tall, fromZero) {
  const known = values.filter((value) => value !== null);
  const [least, most] = known.length ? [min(...known), max(...known)] : [0, 1];
  const low = fromZero ? 0 : least;
  const high = most > low ? most : low + 1;
  return { low, high, at: (value) => top + tall - (tall * (value - low)) / (high - low) };
}

function curveChart(screen, curves, width) {
  const { given, state, colours } = screen;
  const { left, right, top, tall, gap, loss: low, bottom } = CURVE;
  const steps = stepAxis(given, width);
  const height = top + tall + gap + low + bottom;
  const upper = heightAxis(curves.flat(2), top, tall, true);
  const losses = [...given.loss, ...given.validation].map(([, loss]) => loss);
  const lower = heightAxis(losses, top + tall + gap, low, false);
  const kids = [];
  for (const axis of [upper, lower]) {
    for (const value of [axis.low, (axis.low + axis.high) / 2, axis.high]) {
      const y = axis.at(value);
      kids.push(svg("line", { x1: left, x2: width - right, y1: y, y2: y, stroke: colours.line }),
        words(left - 6, y + 4, "end", Number(value.toPrecision(3)), colours.soft));
    }
  }
  const unit = unitOf(state.statistic);
  const axis = statisticWord(state.statistic) + (unit && `,${unit}`);
  kids.push(words(left, top - 8, "start", axis, colours.soft),
    words(left, top + tall + gap - 8, "start", "loss, nats per token", colours.soft),
    ...steps.marks.map((mark) => words(steps.at(mark), height - 8, "middle", count(mark), colours.soft)));
  const line = (points, stroke, wide, opacity) =>
    svg("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", stroke,
      "stroke-width": wide, "stroke-linejoin": "round", opacity });
  const path = (curve) => curve.flatMap((value, i) =>
    (value === null ? [] : [[steps.at(given.steps[i]), upper.at(value)]]));
  curves.forEach((row, i) => row.forEach((curve, j) => {
    if (i !== state.layer || j !== state.head) kids.push(line(path(curve), colours.faint, 1, 0.55));
  }));
  const ours = path(curves[state.layer][state.head]);
  kids.push(line(ours, colours.focus, 2.5, 1),
    ...ours.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.6, fill: colours.focus })),
    line(given.loss.map(([step, loss]) => [steps.at(step), lower.at(loss)]), colours.ink, 1.4, 1),
    ...given.validation.map(([step, loss]) =>
      svg("circle", { cx: steps.at(step), cy: lower.at(loss), r: 2.4, fill: colours.query })));
  const here = steps.at(given.steps[state.step]);
  const marker = { x1: here, x2: here, y1: top, y2: height - bottom, stroke: colours.key, "stroke-width": 1.5 };
  kids.push(svg("line", marker));
  const label = `${statisticWord(state.statistic)} of all heads and the loss over ${given.steps.length} steps`;
  const chart = svg("svg", { width, height, role: "img", label, class: "chart" }, ...kids);
  hear(chart, "click", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width;
    screen.choose({ step: nearestStep(given.steps, steps.back(x)) });
  });
  return chart;
}

const words = (x, y, anchor, text, fill) =>
  svg("text", { x, y, fill, "text-anchor": anchor, "font-size": 11, "font-family": SANS }, text);

function curveTable({ given, state }) {
  const { layer, head, statistic } = state;
  const own = curvesOf(given, state, statistic)[layer][head];
  const nearer = (step) => (best, one) => (abs(one[0] - step) < abs(best[0] - step) ? one : best);
  const lossAt = (step) => given.loss.reduce(nearer(step), given.loss[0] ?? [0, NaN]);
  return tableOf(`Layer ${layer} head ${head}`, ["step", statisticWord(statistic), "loss", "pattern"],
    given.steps.map((step, i) => [count(step), statisticNumber(statistic, own[i]), lossAt(step)[1].toFixed(4),
      patternWord(given, partAt(given, state, i).patterns[layer][head])]));
}

const patternWord = (given, id) => given.patterns.find(([name]) => name === id)?.[1] ?? id;
