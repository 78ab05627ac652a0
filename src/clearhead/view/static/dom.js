// The one place where elements are made: attributes, listeners and text nodes, never markup from strings.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. `tag` may name classes ("p.small.soft"); the properties may be left out: `class`, `style`, `data` and
 * `listen` (objects), properties of form controls, and plain attributes, of which `label` is aria-label; `false`,
 * `null` and `undefined` leave an attribute out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node | string | number | null | false)} kids
 */
function h(tag, props, ...kids) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return isProps(props) ? fill(element, props, kids) : fill(element, {}, [props, ...kids]);
}

const isProps = (given) => Object.prototype.toString.call(given) === "[object Object]";

/** An SVG element; the same rules. */
function svg(tag, props = {}, ...kids) {
  return fill(document.createElementNS(SVG, tag), props, kids);
}

const AS_PROPERTY = new Set(["value", "checked", "disabled", "hidden", "open", "tabIndex", "indeterminate"]);

function fill(element, props, kids) {
  for (const [name, value] of Object.entries(props)) give(element, name, value);
  element.append(...kids.flat().filter((kid) => kid != null && kid !== false).map(asNode));
  return element;
}

const asNode = (kid) => (kid instanceof Node ? kid : document.createTextNode(String(kid)));

function give(element, name, value) {
  if (value == null || value === false) return;
  if (name === "listen") return listen(element, value);
  if (name === "style") return Object.entries(value).forEach(([key, to]) => element.style.setProperty(key, to));
  if (name === "data") return Object.assign(element.dataset, value);
  if (AS_PROPERTY.has(name)) return void (element[name] = value);
  if (/^on/i.test(name)) throw new Error(`attribute ${name}: listeners go into "listen"`);
  element.setAttribute(name === "label" ? "aria-label" : name, value === true ? "" : String(value));
}

function listen(element, listeners) {
  for (const [type, listener] of Object.entries(listeners)) element.addEventListener(type, listener);
}

/** Sets the text only where it differs: a live region must not speak twice, and layout is not woken. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets an attribute, or with null removes it, only where it differs. */
function setAttribute(element, name, value) {
  if (element.getAttribute(name) === (value === null ? null : String(value))) return;
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

/** A button that keeps a fixed label; `props` as for `h`. */
function button(label, props, click) {
  return h("button", { type: "button", ...props, listen: { ...props.listen, click } }, label);
}

/** A small button inside a line of text. */
const pill = (label, click) => button(label, { class: "small-button" }, click);

/** A token, kept to its own direction of writing. */
function tokenNode(label, kind = "") {
  return h("bdi", { class: `token ${kind}`.trim() }, label);
}

/**
 * A table.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Node | string)[][]} rows the first cell of a row heads it
 */
function tableOf(caption, heads, rows) {
  const line = (cells) => h("tr", ...cells.map((cell, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }, cell)));
  const top = h("tr", ...heads.map((head) => h("th", { scope: "col" }, head)));
  return h("table", h("caption", caption), h("thead", top), h("tbody", ...rows.map(line)));
}

/** The table behind a picture: built when it is opened, rebuilt by `.refresh()` while it is open. */
function tableBehind(summary, build) {
  const body = h("div", { class: "scroll", tabIndex: 0, role: "region", label: summary });
  const details = h("details.behind", h("summary", summary), body);
  const refresh = () => details.open && body.replaceChildren(build());
  details.addEventListener("toggle", refresh);
  return Object.assign(details, { refresh });
}

/**
 * A shadow root of our own: the host page's styles stay outside, ours inside.
 * @param {HTMLElement} element the host's
 * @param {string} name the class of the screen
 * @returns {HTMLElement} the container to fill
 */
function openRoot(element, name) {
  const shadow = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  shadow.adoptedStyleSheets = [sheet];
  const root = h("div", { class: `clearhead ${name}`, lang: "en" });
  shadow.replaceChildren(root);
  return root;
}

/** Hands a file made here to the reader. */
function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A name that is safe on every file system. */
function fileName(parts, ending) {
  const kept = parts.join("-").normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+|-+$/g, "");
  return `${kept.slice(0, 80) || "clearhead"}.${ending}`;
}

/** Puts text on the clipboard; false if the host does not allow it. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
