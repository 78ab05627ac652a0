// Codes before they are drawn: pooled to what the screen can show, without the first key, large weights thickened.

/**
 * @typedef {object} Picture a head's cells
 * @property {number} rows
 * @property {number} columns
 * @property {Uint8Array} codes row by row
 * @property {number} rowStep queries that one row stands for
 * @property {number} columnStep keys that one column stands for
 */

/** @returns {Picture} */
function pictureOf({ head, data }) {
  const { rows, columns, row_step: rowStep = 1, column_step: columnStep = 1 } = head;
  return { rows, columns, codes: new Uint8Array(data), rowStep, columnStep };
}

/** The highest of every `down` x `across` cells. Codes are ordered: hidden lowest, not a number highest. */
function pool(picture, down, across) {
  if (down === 1 && across === 1) return picture;
  const [rows, columns] = [ceil(picture.rows / down), ceil(picture.columns / across)];
  const codes = new Uint8Array(rows * columns);
  for (let row = 0; row < picture.rows; row++) {
    const to = floor(row / down) * columns;
    const from = row * picture.columns;
    for (let column = 0; column < picture.columns; column++) {
      const at = to + floor(column / across);
      if (picture.codes[from + column] > codes[at]) codes[at] = picture.codes[from + column];
    }
  }
  return { rows, columns, codes, rowStep: picture.rowStep * down, columnStep: picture.columnStep * across };
}

/** Every cell above the threshold grows to three by three, over cells that are visible and smaller. */
function thicken(picture, threshold) {
  const { rows, columns, codes } = picture;
  const grown = codes.slice();
  const least = encodeWeight(threshold);
  for (let at = 0; at < codes.length; at++) {
    if (codes[at] <= least || codes[at] === NAN_CODE) continue;
    const [row, column] = [floor(at / columns), at % columns];
    for (let y = max(row - 1, 0); y <= min(row + 1, rows - 1); y++) {
      for (let x = max(column - 1, 0); x <= min(column + 1, columns - 1); x++) {
        const near = y * columns + x;
        if (grown[near] !== HIDDEN && grown[near] < codes[at]) grown[near] = codes[at];
      }
    }
  }
  return { ...picture, codes: grown };
}

/** The picture without its first key, each row made to sum to one again. Needs exact columns. */
function withoutFirst(picture) {
  const codes = picture.codes.slice();
  for (let start = 0; start < codes.length; start += picture.columns) {
    const row = codes.subarray(start, start + picture.columns);
    const rest = row.reduce((sum, code, i) => (i && code && code !== NAN_CODE ? sum + decodeWeight(code) : sum), 0);
    for (let i = 1; i < row.length; i++) {
      if (row[i] && row[i] !== NAN_CODE && rest > 0) row[i] = encodeWeight(decodeWeight(row[i]) / rest);
    }
    row[0] = HIDDEN;
  }
  return { ...picture, codes };
}

/** An exact row without its first key. @param {Float32Array} weights */
function rowWithoutFirst(weights) {
  const rest = weights.reduce((sum, p, i) => (i && p > 0 ? sum + p : sum), 0);
  return weights.map((p, i) => (i === 0 ? -1 : p > 0 && rest > 0 ? p / rest : p));
}

/** The largest weights of a row: their places, and what is left for all others. One pass: rows may be long. */
function largest(weights, most) {
  const top = [];
  let [seen, rest] = [0, 0];
  weights.forEach((p, i) => {
    if (!(p >= 0)) return;
    seen++;
    let at = top.length;
    while (at && weights[top[at - 1]] < p) at--;
    top.splice(at, 0, i);
    if (top.length > most) rest += weights[top.pop()];
  });
  return { top, others: seen - top.length, rest };
}

/** Place of the largest weight; 0 in a row without any. */
function strongest(weights) {
  let best = 0;
  for (let i = 1; i < weights.length; i++) if (weights[i] > weights[best]) best = i;
  return best;
}
