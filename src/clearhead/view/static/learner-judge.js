// What a mistake breaks, and which test would have noticed: the properties are looked at on the numbers of the page.

const TESTS = { sum: "weights.sum(-1) == 1", negative: "weights >= 0", hidden: "weights[~mask] == 0" };
const HOLDS = {
  sum: "each row of weights sums to 1", negative: "no weight is negative", hidden: "hidden keys get no weight",
};
const BREAKS = {
  sum: (shows) => `a row of weights sums to ${figure(shows)}, not 1`,
  negative: (shows) => `a weight is negative: ${figure(shows)}`,
  hidden: (shows) => `a hidden key gets a weight of ${figure(shows)}`,
};
const HINTS = {
  "keys-not-transposed": " With four tokens it would run, and be silently wrong: add one and see.",
  "cross-value-from-decoder": " With texts of equal length it would run, silently wrong: add a token to x and see.",
};

/** @returns {{checks: {name, words, holds, skipped}[], verdict: string}} over all heads */
function judged(view) {
  const { c, right, broken } = view;
  if (c.failed) return { checks: [], verdict: `It does not run: ${c.failed.words}.${HINTS[broken.id] ?? ""}` };
  const found = c.used.map((weights) => properties(weights, fitting(right.keep, weights)));
  const checks = found[0].map(({ name, skipped }, n) => {
    const bad = found.map((head) => head[n]).find(({ holds }) => !holds);
    const words = bad ? BREAKS[name](bad.shows) : skipped ? "no key is hidden here" : HOLDS[name];
    return { name, words, holds: !bad, skipped: Boolean(skipped) };
  });
  return { checks, verdict: verdict(view, checks) };
}

const SILENT = "Nothing changes with these numbers, so no test on them can catch it. "
  + "The checker tries other sizes and larger numbers.";

/** The mask, if it has the weights' shape. */
function fitting(keep, weights) {
  return keep && keep.length === weights.length && keep[0].length === weights[0].length ? keep : null;
}

function verdict({ c, right }, checks) {
  const caught = checks.filter(({ holds }) => !holds).map(({ name }) => TESTS[name]);
  const fails = caught.length > 1 ? "fail" : "fails";
  if (caught.length) return `The weights alone give it away: ${caught.join(" and ")} ${fails}.`;
  if (c.answer.length !== right.answer.length) return "The shape gives it away: the output has another number of rows.";
  const gap = Math.max(...map(c.answer, (x, i, j) => Math.abs(x - right.answer[i][j])).flat());
  if (gap < 1e-9) return SILENT;
  return `Every property holds: only a comparison with the right answer catches it. It is off by up to ${figure(gap)}.`;
}
