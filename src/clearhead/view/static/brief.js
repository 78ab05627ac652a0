// Short names for what is written often.

const { abs, ceil, floor, max, min, round } = Math;
const { assign, entries, fromEntries, hasOwn } = Object;
const times = (length, make) => Array.from({ length }, (_, i) => make(i));
const put = (element, ...kids) => element.replaceChildren(...kids);
const press = (element, pressed) => setAttribute(element, "aria-pressed", String(Boolean(pressed)));
const panel = (name, label, ...kids) => h(`section.panel.${name}`, { label: label }, ...kids);
const hear = (element, type, listener) => element.addEventListener(type, listener);
