// Tokens and numbers as people read them. A token's text is data: whatever could not be seen is spelled out.

/** Controls, bidirectional marks, zero-width characters, fillers, variation selectors, tags, private and lone halves. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const BYTES = /⟨((?:[0-9A-F]{2} ?)+)⟩/g;

const spelled = (character) => "ᵁ" + character.codePointAt(0).toString(16).padStart(4, "0");
const visible = (text) => text.replace(UNSEEN, spelled);
const dots = (spaces) => "·".repeat(spaces.length);

/** A token on an axis, in a table, in a label: its spaces show as ·, a line break as ⏎, a tab as ⇥, nothing as ∅. */
function showToken(token) {
  if (token === "") return "∅";
  const marked = token.replace(/\r?\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +| +$/g, dots);
  return visible(marked);
}

/** A token inside running text: spaces stay spaces, line breaks break. */
function flowToken(token) {
  if (token === "") return "∅";
  const lines = token.split(/\r?\n/).map((line) => visible(line.replace(/\t/g, "⇥ ")));
  return lines.join("⏎\n");
}

/** At most `length` characters, counted as people count them, then an ellipsis. */
function shorten(text, length) {
  const letters = Array.from(text);
  return letters.length <= length ? text : letters.slice(0, length - 1).join("") + "…";
}

const hasBytes = (token) => token.includes("⟨") && new RegExp(BYTES.source).test(token);

/** The bytes of a token whose half characters are written ⟨F0 9F⟩. */
function bytesOf(token) {
  const bytes = [];
  let end = 0;
  for (const match of token.matchAll(BYTES)) {
    bytes.push(...new TextEncoder().encode(token.slice(end, match.index)));
    bytes.push(...match[1].trim().split(" ").map((hex) => parseInt(hex, 16)));
    end = match.index + match[0].length;
  }
  return bytes.concat(...new TextEncoder().encode(token.slice(end)));
}

function decodedOrNull(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** The tokens from `start` that together make whole characters: {text, end}, or null. */
function wholeFrom(tokens, start) {
  let bytes = [];
  for (let end = start; end < tokens.length && hasBytes(tokens[end]) && end < start + 8; end++) {
    bytes = bytes.concat(bytesOf(tokens[end]));
    const text = decodedOrNull(bytes);
    if (text !== null) return { text, end: end + 1 };
  }
  return null;
}

/**
 * What each token shows: a character over several tokens is shown whole in the first and by its part in the rest.
 * @param {string[]} tokens
 * @param {string[]} [running] the same in running text, with the blanks that a tokenizer leaves out
 * @returns {{label: string, flow: string, note: string, rest?: boolean}[]} label for axes and tables, flow for running
 *   text, note to add; rest: a later part of a character
 */
function readableTokens(tokens, running = tokens) {
  const shown = tokens.map((token, i) => ({ label: showToken(token), flow: flowToken(running[i]), note: "" }));
  for (let i = 0; i < tokens.length; i++) {
    const whole = hasBytes(tokens[i]) ? wholeFrom(tokens, i) : null;
    if (whole === null) continue;
    const parts = whole.end - i;
    for (let part = 0; part < parts; part++) shown[i + part] = partOf(whole.text, tokens[i + part], part, parts);
    i = whole.end - 1;
  }
  return shown;
}

function partOf(text, token, part, parts) {
  const note = `bytes ${showToken(token)}, part ${part + 1} of ${parts} of ${showToken(text)}`;
  const label = parts > 1 ? `${showToken(text)} ${part + 1}/${parts}` : showToken(text);
  return { label, flow: part === 0 ? flowToken(text) : "▸", note, rest: part > 0 };
}

/** 32768 → "32,768". */
function count(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 1, "token" → "1 token"; 2, "token" → "2 tokens". */
function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A share of one as per cent in three digits, never with an exponent: 95.0%, 2.92%, 0.053%. */
function percent(share) {
  if (isNaN(share)) return "NaN";
  const value = 100 * share;
  if (value === 0) return "0%";
  if (value < 0.001) return "<0.001%";
  const digits = value >= 99.95 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return value.toFixed(digits) + "%";
}

/** A weight in a small cell: .95, 1, and nothing below half a hundredth. */
function tinyWeight(p) {
  if (isNaN(p)) return "NaN";
  if (p >= 0.995) return "1";
  return p < 0.005 ? "" : p.toFixed(2).slice(1);
}

/** A number with a true minus sign. */
function signed(value, digits) {
  return value.toFixed(digits).replace("-", "−");
}

/** A number that came through one byte: two digits and "≈". */
function aboutPercent(share) {
  if (!(share > 0)) return isNaN(share) ? "NaN" : "≈0%";
  const value = 100 * share;
  return value < 0.01 ? "<0.01%" : `≈${Number(value.toPrecision(2))}%`;
}
