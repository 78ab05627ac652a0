// Two pens with the same strokes, so that a figure is written once: on a canvas to look at, in SVG for a paper.
// rect, frame, line, text, hatch and cells (and disc, on the canvas); lengths are CSS pixels, x to the right, y down.
// What is not said is in the colour of small print; lines and hatching are in the colour of lines.

const MONO = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const SANS = '"Inter", "Noto Sans", system-ui, Arial, sans-serif';
/** Cells up to this many become vector rectangles in an SVG; more become one embedded picture. */
const VECTOR_CELLS = 6400;

/** @param {CanvasRenderingContext2D} context scaled so that one unit is one CSS pixel */
function canvasPen(context, colours) {
  let [hatching, font] = [null, ""];
  return {
    colours,
    rect(x, y, w, h, fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, w, h);
    },
    frame(x, y, w, h, strokeStyle = colours.line, lineWidth = 1) {
      assign(context, { strokeStyle, lineWidth });
      context.strokeRect(x, y, w, h);
    },
    line(x1, y1, x2, y2, strokeStyle = colours.line, lineWidth = 1) {
      assign(context, { strokeStyle, lineWidth });
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
    },
    disc(x, y, radius, fill) {
      context.fillStyle = fill;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
    },
    text(x, y, words, { fill = colours.soft, size = 10.5, anchor = "start", turn = 0, mono, bold } = {}) {
      const wanted = `${bold ? "600 " : ""}${size}px ${mono ? MONO : SANS}`;
      if (font !== wanted) context.font = font = wanted; // setting a font is slow
      context.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
      context.fillStyle = fill;
      if (!turn) return context.fillText(words, x, y);
      context.save();
      context.translate(x, y);
      context.rotate((turn * Math.PI) / 180);
      context.fillText(words, 0, 0);
      context.restore();
    },
    hatch(x, y, w, h) {
      context.fillStyle = hatching ??= hatchPattern(context, colours.line);
      context.fillRect(x, y, w, h);
    },
    cells(x, y, w, h, picture, table) {
      context.imageSmoothingEnabled = false;
      context.drawImage(pictureCanvas(picture, table), x, y, w, h);
    },
  };
}

function hatchPattern(context, colour) {
  const tile = h("canvas", { width: 6, height: 6 });
  const small = tile.getContext("2d");
  assign(small, { strokeStyle: colour, lineWidth: 1 });
  small.beginPath();
  for (const start of [-6, 0, 6]) {
    small.moveTo(start, 6);
    small.lineTo(start + 6, 0);
  }
  small.stroke();
  return context.createPattern(tile, "repeat");
}

/** Codes as pixels, one each. @param {{rows: number, columns: number, codes: Uint8Array}} picture */
function pictureCanvas({ rows, columns, codes }, table) {
  const canvas = h("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  const words = new Uint32Array(pixels.data.buffer);
  for (let i = 0; i < codes.length; i++) words[i] = table[codes[i]];
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** @param {SVGElement} into */
function svgPen(into, colours) {
  const add = (tag, props, ...kids) => into.append(svg(tag, props, ...kids));
  return {
    colours,
    rect: (x, y, width, height, fill) => add("rect", { x, y, width, height, fill }),
    frame: (x, y, width, height, stroke = colours.line) => add("rect", { x, y, width, height, fill: "none", stroke }),
    line: (x1, y1, x2, y2, stroke = colours.line) => add("line", { x1, y1, x2, y2, stroke }),
    text(x, y, words, { fill = colours.soft, size = 10.5, anchor = "start", turn = 0, mono, bold } = {}) {
      const font = { "font-size": size, "font-family": mono ? MONO : SANS, "font-weight": bold ? 600 : null };
      const transform = turn ? `rotate(${turn} ${x} ${y})` : null;
      add("text", { x, y, fill, "text-anchor": anchor, transform, "xml:space": "preserve", ...font }, words);
    },
    hatch(x, y, w, h) {
      for (let start = 6; start < w + h; start += 6) {
        const [x1, y1] = start <= h ? [x, y + start] : [x + start - h, y + h];
        const [x2, y2] = start <= w ? [x + start, y] : [x + w, y + start - w];
        add("line", { x1, y1, x2, y2, stroke: colours.line, "stroke-width": 0.7 });
      }
    },
    cells(x, y, width, height, picture, table) {
      if (picture.codes.length <= VECTOR_CELLS) return vectorCells(add, x, y, width, height, picture, table);
      const href = pictureCanvas(picture, table).toDataURL("image/png");
      const style = { "image-rendering": "pixelated" };
      add("image", { x, y, width, height, href, preserveAspectRatio: "none", style });
    },
  };
}

/** One rectangle for each run of equal cells in a row. */
function vectorCells(add, x, y, width, height, { rows, columns, codes }, table) {
  const [wide, tall] = [width / columns, height / rows];
  const colour = (pixel) => `rgb(${[0, 8, 16].map((shift) => (pixel >>> shift) & 255).join()})`;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; ) {
      const code = codes[row * columns + column];
      const from = column;
      while (column < columns && codes[row * columns + column] === code) column++;
      if (code === HIDDEN) continue;
      const place = { x: round2(x + from * wide), y: round2(y + row * tall) };
      add("rect", { ...place, width: round2((column - from) * wide), height: round2(tall), fill: colour(table[code]) });
    }
  }
}

const round2 = (value) => round(value * 100) / 100;

/** A canvas of a CSS size, sharp on the screen it is on, cleared. @returns {CanvasRenderingContext2D} */
function freshCanvas(canvas, width, height, density = devicePixelRatio || 1) {
  const [wide, tall] = [max(1, round(width * density)), max(1, round(height * density))];
  if (canvas.width !== wide || canvas.height !== tall) assign(canvas, { width: wide, height: tall });
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A pen for a canvas of this size, cleared. */
const penOn = (view, canvas, width, height) => canvasPen(freshCanvas(canvas, width, height), view.colours);

/** A cell in the colour of a weight, with its number if there is room; hatched if it is hidden. */
function weightCell(view, pen, x, y, size, p, words) {
  if (p < 0) return pen.hatch(x, y, size.wide - 1, size.tall - 1);
  wordCell(pen, x, y, size, words, weightColour(p, view.state.scale, view.theme));
}

function wordCell(pen, x, y, { wide, tall }, words, colour) {
  pen.rect(x, y, wide - 1, tall - 1, css(colour));
  const style = { fill: inkOn(colour), size: 9, anchor: "middle" };
  if (wide >= 19 && tall >= 13) pen.text(x + (wide - 1) / 2, y + tall / 2 + 3, words, style);
}
