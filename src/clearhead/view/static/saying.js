// What the screen says in words: where one is (to a screen reader), what is being done, what went wrong.

/** Calls once, `wait` milliseconds after the last call. */
function later(wait, call) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), wait);
  };
}

/** Where one is and what the row says, once the movement has come to rest. */
function sayWhere(view) {
  const row = rowNow(view);
  if (!row) return;
  view.sayLater ??= later(250, () => view.meta && setText(view.live, whereWords(view)));
  view.sayLater();
}

function whereWords(view) {
  const row = rowNow(view);
  if (!row) return "";
  const { layer, head, query } = view.state;
  const key = keyNow(view);
  const name = (place) => `${keyLabel(view, place)} at ${place}`;
  const share = (place) => (row[place] < 0 ? "hidden" : percentIn(view.shown.row, row[place]));
  const { top } = largest(row, 3);
  const best = top.map((place) => `${name(place)} ${share(place)}`).join(", ");
  return `Layer ${layer} head ${head}, query ${query} ${queryLabel(view, query)}. ` +
    `Key ${name(key)}: ${share(key)}. Top keys: ${best || "none"}.`;
}

/** Says something in passing, to eyes and to a screen reader. */
function announce(view, words) {
  setText(view.live, words);
  setText(view.toast, words);
  view.toast.hidden = false;
  view.hideToast ??= later(2500, () => (view.toast.hidden = true));
  view.hideToast();
}

/** What went wrong, in one sentence, until it is put away. */
function complain(view, words) {
  const props = { class: "small-button", label: "put this message away" };
  const away = button("✕", props, () => (view.complaint.hidden = true));
  put(view.complaint, h("span", words), away);
  view.complaint.hidden = false;
}

/** Says that another scene is on its way (`words`), or that it has come (""). */
function renewing(view, words) {
  view.renewing = words !== "";
  setText(view.busy, words);
  view.busy.hidden = !view.renewing;
  touch(view, "renewing");
}

/** Keeps the width of a panel, so that no drawing has to ask the page for it. */
function watchWidth(view, element, name) {
  const observer = new ResizeObserver(([entry]) => {
    const width = floor(entry.contentRect.width);
    if (view.widths[name] === width) return;
    view.widths[name] = width;
    touch(view, name);
  });
  observer.observe(element);
  view.watched.push(observer);
  return element;
}
