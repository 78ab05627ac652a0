// The source of a saved file: answers lie in the page, deflated. What was not saved is worked out from what was.

/** JSON with sorted keys and no spaces, as Python's json.dumps(args, sort_keys=True, separators=(",", ":")). */
const sortedJson = (value) =>
  JSON.stringify(value, (_, one) => (isProps(one) ? fromEntries(entries(one).sort()) : one));

/** The bytes of a text that holds 13 bits in every two letters: those that ASCII prints, but for ", &, < and \\. */
function bytesIn(text) {
  const number = (code) => code - 32 - (code > 34) - (code > 38) - (code > 60) - (code > 92);
  const bytes = new Uint8Array((13 * text.length) >> 4);
  let [at, held, bits] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 2) {
    held = (held << 13) | (91 * number(text.charCodeAt(i)) + (number(text.charCodeAt(i + 1)) || 0));
    for (bits += 13; bits > 7; bits -= 8) bytes[at++] = held >> (bits - 8);
  }
  return bytes;
}

async function inflate(text) {
  const stream = new Blob([bytesIn(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const answer = unpack(await new Response(stream).arrayBuffer());
  const { from_above: apart, columns } = answer.head;
  const codes = new Uint8Array(answer.data);
  if (apart) for (let i = 2 * columns; i < codes.length; i++) codes[i] += (codes[i - columns] + codes[i - 2 * columns]) >> 1;
  return answer;
}

/** @param {ParentNode} place the element whose scripts carry the answers */
function embeddedSource(place) {
  const scripts = new Map();
  for (const script of place.querySelectorAll("script[data-key]")) scripts.set(script.dataset.key, script.textContent);
  const opened = new Map();
  const stored = (op, args) => {
    const key = op + " " + sortedJson(args);
    if (!scripts.has(key)) return null;
    if (!opened.has(key)) opened.set(key, inflate(scripts.get(key)));
    return opened.get(key);
  };
  return {
    async ask(op, args = {}) {
      const answer = stored(op, args) ?? (hasOwn(WORKED_OUT, op) ? WORKED_OUT[op](stored, args) : null);
      if (answer === null) throw new Error("This is a saved page; that question needs the model.");
      return answer;
    },
  };
}

/** How a question that was not saved is answered from what was. */
const WORKED_OUT = { row: rowFromSaved, tile: tileFromSaved, pair: pairFromSaved };

/** float32 x keys and whether it is rounded. */
async function weightsFromSaved(stored, { stack, layer, head }, query) {
  const rows = await stored("rows", { stack, layer, head });
  if (rows) return { weights: new Float32Array(rows.data, 4 * query * rows.head.keys, rows.head.keys), rounded: false };
  return { weights: rowFromCodes(await stored("image", { stack, layer, head }), query), rounded: true };
}

function rowFromCodes(image, query) {
  if (!image) throw new Error("This head was left out of the saved page.");
  if (image.head.row_of !== "exact" || image.head.column_of !== "exact") {
    throw new Error("This saved page holds the pooled picture of the head, not its rows.");
  }
  const codes = new Uint8Array(image.data, query * image.head.columns, image.head.columns);
  return Float32Array.from(codes, decodeWeight);
}

async function rowFromSaved(stored, args) {
  const { weights, rounded } = await weightsFromSaved(stored, args, args.query);
  return { head: { query: args.query, rounded, ...measure(weights) }, data: weights.slice().buffer };
}

/** Sum, entropy in bits and effective number of keys of one row; hidden keys (-1) count for nothing. */
function measure(weights) {
  let sum = 0;
  let entropy = 0;
  for (const p of weights) {
    if (p > 0) sum += p;
    if (p > 0) entropy -= p * Math.log2(p);
  }
  return { sum, entropy, effective_keys: 2 ** entropy };
}

async function tileFromSaved(stored, args) {
  const [rows, first] = await spanOf(stored, args, "queries", args.query, args.rows);
  const [columns, left] = await spanOf(stored, args, "keys", args.key, args.columns);
  const cells = new Float32Array(rows * columns);
  let rounded = false;
  for (let row = 0; row < rows; row++) {
    const found = await weightsFromSaved(stored, args, first + row);
    cells.set(found.weights.subarray(left, left + columns), row * columns);
    rounded ||= found.rounded;
  }
  return { head: { query: first, key: left, rows, columns, rounded }, data: cells.buffer };
}

/** A window of `wanted` places round `centre`, kept inside the text: [size, first place]. */
async function spanOf(stored, { stack }, side, centre, wanted) {
  const whole = (await stackOf(stored, stack))[side];
  const size = min(wanted, whole);
  return [size, min(max(centre - (size >> 1), 0), whole - size)];
}

async function stackOf(stored, id) {
  const meta = await stored("meta", {});
  return meta.head.stacks.find((stack) => stack.id === id);
}

async function pairFromSaved(stored, { stack, query, key }) {
  const values = [];
  let rounded = false;
  for (const [layer, heads] of (await stackOf(stored, stack)).layers.entries()) {
    for (let head = 0; head < heads; head++) {
      const found = await weightsFromSaved(stored, { stack, layer, head }, query);
      values.push(found.weights[key]);
      rounded ||= found.rounded;
    }
  }
  return { head: { rounded }, data: Float32Array.from(values).buffer };
}
