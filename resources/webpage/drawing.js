// Draws the colours, marks and values of cells as in the window.

function paint(panel) {
  const {colours: base, bar, dot} = panel.box, table = colours(panel);
  const [rows, columns] = panel.shape;
  drawPixels(base, columns, rows, (at) => table.words(panel.entries[at]));
  drawPixels(bar, LAST_COLOUR + 1, 1, (at) => table.words(at));
  const heads = theme().heads;
  if (dot) dot.style.background = heads[panel.head % heads.length];
  const sharpness = isPrinting ? 2 : devicePixelRatio; // Chromium misplaces fractional pixels in print
  const canvas = panel.box.drawn, ink = canvas.getContext("2d");
  canvas.width = Math.round(columns * panel.width * sharpness);
  canvas.height = Math.round(rows * panel.height * sharpness);
  ink.scale(canvas.width / (columns * panel.width), canvas.height / (rows * panel.height));
  if (isPrinting) { // in print, cells are not whole pixels
    const large = document.createElement("canvas"), {width, height} = canvas;
    Object.assign(large, {width, height});
    const copy = large.getContext("2d");
    copy.imageSmoothingEnabled = false;
    copy.drawImage(base, 0, 0, width, height);
    ink.drawImage(large, 0, 0, columns * panel.width, rows * panel.height);
  }
  if (Math.min(panel.width, panel.height) >= 20) drawGridLines(panel, ink);
  drawMarks(panel, ink, table);
  drawValues(panel, ink, table);
}

/** Draw an image with one pixel per cell. */
function drawPixels(canvas, width, height, word) {
  Object.assign(canvas, {width, height});
  const ink = canvas.getContext("2d"), image = ink.createImageData(width, height);
  const pixels = new DataView(image.data.buffer);
  for (let at = 0; at < width * height; at++) pixels.setUint32(4 * at, word(at) * 256 + 255);
  ink.putImageData(image, 0, 0);
}

function drawGridLines(panel, ink) {
  const [rows, columns] = panel.shape;
  const width = columns * panel.width, height = rows * panel.height;
  ink.fillStyle = theme().paper;
  for (let row = 1; row < rows; row++) ink.fillRect(0, row * panel.height, width, 1);
  for (let at = 1; at < columns; at++) ink.fillRect(at * panel.width, 0, 1, height);
}

function drawMarks(panel, ink, table) {
  const {width, height} = panel, [, columns] = panel.shape;
  const share = height >= 20 ? 0.25 : 1, side = Math.min(width, height);
  const size = Math.min(Math.max(0.22 * side, 2.5), 8), gap = side >= 20 ? 1 : 0;
  drawMask(panel, ink);
  drawHatching(panel, ink, UNEVEN, theme().border, share);
  panel.marks.forEach((mark, at) => {
    if (!(mark & (DROPPED | BELOW | ABOVE))) return;
    const left = at % columns * width, top = Math.floor(at / columns) * height;
    if (mark & DROPPED && width >= 6) drawCross(ink, left, top, width, height);
    if (mark & (BELOW | ABOVE) && side >= 8) {
      ink.fillStyle = table.isLight(panel.entries[at]) ? "#000000" : "#FFFFFF";
      const isAbove = mark & ABOVE;
      cutCorner(ink, left + width, isAbove ? top + gap : top + height, isAbove ? size : -size);
    }
  });
}

/** Tint masked cells and draw a line through each, or a common pattern if they are small. */
function drawMask(panel, ink) {
  const {width, height, marks, values} = panel, columns = panel.shape[1];
  const side = Math.min(width, height), part = width < 24 ? 0.5 : 0.26;
  ink.fillStyle = theme().mask;
  ink.beginPath();
  marks.forEach((mark, at) => {
    if (!(mark & FORBIDDEN)) return;
    const left = at % columns * width, bottom = (Math.floor(at / columns) + 1) * height;
    ink.fillRect(left, bottom - height, width, height);
    const share = values[at] === -Infinity ? part : 0.5;
    for (const [from, to] of side < 8 ? [] : [[0, share], [1 - share, 1]]) {
      ink.moveTo(left + from * width, bottom - from * height);
      ink.lineTo(left + to * width, bottom - to * height);
    }
  });
  ink.globalAlpha = 0.5;
  ink.strokeStyle = theme().hatch;
  ink.lineWidth = 1;
  ink.stroke();
  if (side < 8) drawHatching(panel, ink, FORBIDDEN, theme().hatch, 1);
  ink.globalAlpha = 1;
}

/** Hatch a share of the height of all cells that have a mark; adjacent cells are combined. */
function drawHatching(panel, ink, mark, colour, share) {
  const {width, height, marks} = panel, [rows, columns] = panel.shape;
  ink.beginPath();
  for (let row = 0; row < rows; row++) {
    const bottom = (row + 1) * height, top = bottom - share * height;
    for (let first = 0, at = 0; at < columns; first = ++at) {
      while (at < columns && marks[row * columns + at] & mark) at++;
      if (at > first) diagonals(ink, first * width, top, at * width, bottom);
    }
  }
  ink.strokeStyle = colour;
  ink.lineWidth = 1;
  ink.stroke();
}

/** Draw diagonal lines across an area; the lines of adjacent areas are continuous. */
function diagonals(ink, left, top, right, bottom) {
  for (let sum = Math.ceil((left + top) / 8) * 8; sum < right + bottom; sum += 8) {
    const start = Math.max(left, sum - bottom), end = Math.min(right, sum - top);
    ink.moveTo(start, sum - start);
    ink.lineTo(end, sum - end);
  }
}

function drawCross(ink, left, top, width, height) {
  const inset = width * 0.22, right = left + width - inset, bottom = top + height - inset;
  ink.strokeStyle = theme().border;
  ink.lineWidth = width >= 20 ? 1.25 : 1;
  ink.beginPath();
  ink.moveTo(left + inset, top + inset);
  ink.lineTo(right, bottom);
  ink.moveTo(left + inset, bottom);
  ink.lineTo(right, top + inset);
  ink.stroke();
}

/** Cut the upper right corner or, if the height is negative, the lower right corner. */
function cutCorner(ink, right, edge, height) {
  ink.globalAlpha = 0.7;
  ink.beginPath();
  ink.moveTo(right - Math.abs(height), edge);
  ink.lineTo(right, edge);
  ink.lineTo(right, edge + height);
  ink.fill();
  ink.globalAlpha = 1;
}

function drawValues(panel, ink, table) {
  if (panel.pooled || panel.width < 24) return;
  const values = Array.from(panel.values);
  let texts = values.map((value) => formatNumber(value));
  const fitting = (usual) => fittingSize(texts, panel.width, usual);
  let size = fitting("−0.0000") || fitting("0.0000");
  if (!size && panel.isChange && panel.isCoarse) {
    texts = values.map((value) => (Math.abs(value) >= 0.005 ? formatNumber(value, 2) : "0"));
    size = fitting("−0.00");
  }
  if (!size) return;
  ink.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  ink.textAlign = "center";
  ink.textBaseline = "middle";
  texts.forEach((text, at) => {
    const entry = panel.entries[at];
    if (entry >= FIRST_MARK && text !== "−∞") return; // the mark is sufficient
    ink.fillStyle = entry >= FIRST_MARK ? theme().quiet : table.isLight(entry) ? "#000000" : "#FFFFFF";
    const row = Math.floor(at / panel.shape[1]), column = at % panel.shape[1];
    ink.fillText(text, (column + 0.5) * panel.width, (row + 0.5) * panel.height + 0.5);
  });
}

/** Return the font size at which all values fit in their cells; 0 if it would be unreadable. */
function fittingSize(texts, width, usual) {
  const longest = texts.reduce((most, text) => (text.length > most.length ? text : most), usual);
  const size = Math.floor(Math.min(18, 12 * (width - 4) / textWidth(longest)));
  return size < 9 ? 0 : size;
}
