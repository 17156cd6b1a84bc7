// Shows all heads as small heatmaps, one head as a large heatmap, and the tokens with the weights
// of one query or key. Text is always inserted as plain text.

const LAST_COLOUR = 252, NAN_COLOUR = 253, MASKED = 255, NAN_CODE = 65535;
const MANY = 128; // tokens from which the large heatmap gets more room
const MAX_UNPACKING = 8; // layers that are decompressed at the same time
const DRAWING_INTERVAL_MS = 50; // between drawings of layers that have been decompressed
const GAP = 3, LABEL = 11, MIN_TEXTS = 70, MAX_TEXTS = 118, MAX_CELL = 46, MAX_LARGEST = 4;
const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

const page = JSON.parse(document.getElementById("page").textContent);
const [rows, columns] = page.shape;
const MAX_LABEL = Math.max(rows, columns) > MANY ? 56 : 72;
const layers = page.layers, isOneText = !page.keys;
for (const name of ["queries", "keys"]) { // parts of characters cannot be shown
  page[name] = page[name]?.map((text) => text.toWellFormed?.() ?? text);
}
const labels = [page.queries, page.keys ?? page.queries].map((words) => words.map(visibleLabel));
const system = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
const map = byId("map"), matrix = byId("matrix"), readout = byId("readout");
const [base, marks] = matrix.querySelectorAll("canvas"), scratch = document.createElement("canvas");
let layer = 0, head = 0, direction = "to", chosenTheme = "";
let pinned = null, hovered = null; // {row, column}, of which one is null if a token is selected
let grid = null, box = null; // sizes of the small heatmaps and of the large one
let colours = null, drawnSize = "";

// --------------------------------------------------------------------------------------- data

/** Replace characters that would be invisible in a label. */
function visibleLabel(text) {
  const shown = text.replace(/\r?\n/g, "⏎").replace(/\t/g, "⇥");
  return shown.trim() ? shown : "␣".repeat(Math.max(1, shown.length));
}

async function unpackLayer(one, text) {
  const numbers = joinPlanes(await inflate(text), page.bytes);
  one.codes = page.bytes === 4 ? new Float32Array(numbers) : new Uint16Array(numbers);
  one.small = [];
}

async function unpackMasks() {
  for (const [at, text] of page.masks.entries()) {
    const bits = await inflate(text);
    page.masks[at] = (cell) => bits[cell >> 3] >> (7 - (cell & 7)) & 1;
  }
}

function isMasked(one, row, column) {
  return one.mask !== null && page.masks[one.mask](row * columns + column) === 1;
}

function weight(row, column, one = layers[layer], of = head) {
  const code = one.codes[(of * rows + row) * columns + column];
  if (page.bytes === 4) return code;
  return code === NAN_CODE ? NaN : code * page.step;
}

/** Return the index of a weight's colour, as in the window. */
function colourOf(one, row, column, value) {
  if (isMasked(one, row, column)) return MASKED;
  if (Number.isNaN(value)) return NAN_COLOUR;
  return Math.min(LAST_COLOUR, Math.floor(value / one.end * LAST_COLOUR + 0.5));
}

function formatWeight(value) {
  if (page.bytes === 4 || Number.isNaN(value)) return formatNumber(value);
  const half = `0.${"0".repeat(page.decimals)}5`;
  return value ? value.toFixed(page.decimals) : `< ${half}`;
}

/** Return the indices of the tokens that a row or column represents. */
function tokenRange(at, axis) {
  const first = at * page.block;
  return [first, Math.min(first + page.block, labels[axis].length) - 1];
}

// ------------------------------------------------------------------------------------- colours

function theme() {
  return page.themes[chosenTheme || (system.matches ? "dark" : "light")];
}

function readColours() {
  const values = theme(), [digits, light] = page.tables[values.name];
  const words = new Uint32Array(256);
  const bytes = new DataView(words.buffer);
  for (let at = 0; at < 256; at++) {
    const word = Number.parseInt(digits.slice(6 * at, 6 * at + 6), 16);
    bytes.setUint32(4 * at, word * 256 + 255);
  }
  colours = {
    words,
    of: (at) => `#${digits.slice(6 * at, 6 * at + 6)}`,
    ink: (at) => (light[at] === "1" ? "#000000" : "#FFFFFF"),
  };
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === "string") document.documentElement.style.setProperty(`--${name}`, value);
  }
  document.documentElement.style.colorScheme = values.name;
  byId("scheme").textContent = values.name === "dark" ? "Light colours" : "Dark colours";
}

/** Return a canvas with one pixel per cell, which the next call reuses. */
function pixels(height, width, entryAt) {
  if (scratch.width < width || scratch.height < height) {
    Object.assign(scratch, {width: Math.max(width, scratch.width), height: Math.max(height, scratch.height)});
  }
  const image = new ImageData(width, height), words = new Uint32Array(image.data.buffer);
  for (let at = 0; at < words.length; at++) words[at] = colours.words[entryAt(at)];
  scratch.getContext("2d").putImageData(image, 0, 0);
  return scratch;
}

function resize(canvas, width, height) {
  const sharpness = devicePixelRatio;
  canvas.width = Math.max(1, Math.round(width * sharpness));
  canvas.height = Math.max(1, Math.round(height * sharpness));
  Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
  const ink = canvas.getContext("2d");
  ink.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  ink.imageSmoothingEnabled = false;
  ink.font = `${LABEL}px ${getComputedStyle(document.body).fontFamily}`;
  ink.textBaseline = "middle";
  return ink;
}

// ------------------------------------------------------------------------- all heads, in small

function layOutGrid() {
  const most = Math.max(...layers.map((one) => one.heads));
  const left = 24, top = 16, share = Math.max(rows, columns) > MANY ? 0.26 : 0.4;
  const isNarrow = innerWidth <= 620;
  const room = (isNarrow ? innerWidth - 40 : innerWidth * share) - left;
  const size = Math.max(20, Math.min(72, Math.floor(room / most) - GAP));
  const scale = size / Math.max(rows, columns);
  const width = Math.max(16, Math.round(columns * scale)), height = Math.max(16, Math.round(rows * scale));
  grid = {left, top, size, width, height, across: width + GAP, down: height + GAP};
  byId("heads").style.maxWidth = isNarrow ? "100%" : "45%";
  grid.ink = resize(
    map.querySelector("canvas"), left + most * grid.across, top + layers.length * grid.down,
  );
  grid.ink.fillStyle = theme().quiet;
  grid.ink.textAlign = "center";
  const every = Math.ceil(16 / grid.across);
  for (let at = 0; at < most; at += every) grid.ink.fillText(at + 1, left + at * grid.across + width / 2, 7);
  grid.ink.textAlign = "right";
  for (const [at, one] of layers.entries()) {
    grid.ink.fillText(one.number + 1, left - 5, top + at * grid.down + height / 2);
    if (one.codes) drawSmall(one, at);
  }
}

/** Draw the heads of a layer; each pixel shows the largest weight of the cells that it covers. */
function drawSmall(one, at) {
  const side = Math.max(8, Math.round(grid.size * devicePixelRatio));
  const block = Math.ceil(Math.max(rows, columns) / side);
  const height = Math.ceil(rows / block), width = Math.ceil(columns / block), size = height * width;
  const heads = Array.from({length: one.heads}, (_, of) => smallEntries(one, of, block, height, width));
  const image = pixels(height * one.heads, width, (cell) => heads[Math.floor(cell / size)][cell % size]);
  const y = grid.top + at * grid.down;
  for (let of = 0; of < one.heads; of++) {
    const x = grid.left + of * grid.across;
    grid.ink.drawImage(image, 0, of * height, width, height, x, y, grid.width, grid.height);
  }
}

function smallEntries(one, of, block, height, width) {
  const kept = one.small[of];
  if (kept?.block === block) return kept.entries;
  const largest = new Float32Array(height * width).fill(-1);
  const start = of * rows * columns, factor = page.bytes === 4 ? 1 : page.step;
  for (let row = 0, from = start; row < rows; row++, from += columns) {
    const line = Math.floor(row / block) * width;
    for (let column = 0; column < columns; column++) {
      const at = line + (block === 1 ? column : Math.floor(column / block)), code = one.codes[from + column];
      const value = code === NAN_CODE && page.bytes === 2 ? NaN : code * factor;
      if (!(value <= largest[at]) && !isMasked(one, row, column)) largest[at] = value;
    }
  }
  const entries = Uint8Array.from(largest, (value) => {
    if (value === -1) return MASKED;
    if (Number.isNaN(value)) return NAN_COLOUR;
    return Math.min(LAST_COLOUR, Math.floor(value / one.end * LAST_COLOUR + 0.5));
  });
  one.small[of] = {block, entries};
  return entries;
}

function showChosen() {
  const x = grid.left + head * grid.across, y = grid.top + layer * grid.down;
  const chosen = byId("chosen"), pane = byId("heads");
  Object.assign(chosen.style, {
    left: `${x}px`, top: `${y}px`, width: `${grid.width}px`, height: `${grid.height}px`,
  });
  if (y < pane.scrollTop) pane.scrollTop = y - grid.top;
  const bottom = y + grid.down + GAP - pane.clientHeight, right = x + grid.across + GAP - pane.clientWidth;
  if (bottom > pane.scrollTop) pane.scrollTop = bottom;
  if (x - grid.left < pane.scrollLeft) pane.scrollLeft = x - grid.left;
  if (right > pane.scrollLeft) pane.scrollLeft = right;
}

function headAt(event) {
  const area = map.getBoundingClientRect();
  const at = Math.floor((event.clientY - area.top - grid.top) / grid.down);
  const of = Math.floor((event.clientX - area.left - grid.left) / grid.across);
  return layers[at] && of >= 0 && of < layers[at].heads ? [at, of] : null;
}

function selectHead(at, of) {
  layer = Math.max(0, Math.min(layers.length - 1, at));
  head = Math.max(0, Math.min(layers[layer].heads - 1, of));
  showChosen();
  drawHead();
}

// ------------------------------------------------------------------------- one head, in large

function labelWidth(ink, words) {
  const widths = words.slice(0, 400).map((word) => ink.measureText(word).width);
  return Math.min(MAX_LABEL, Math.ceil(Math.max(0, ...widths)));
}

function layOutHead() {
  const pane = byId("head"), ink = base.getContext("2d");
  ink.font = `${LABEL}px ${getComputedStyle(document.body).fontFamily}`;
  const left = labelWidth(ink, labels[0]) + 8, above = labelWidth(ink, labels[1]) + 10;
  const others = byId("bar").clientHeight + readout.clientHeight + 12;
  const written = [...byId("texts").children].reduce((sum, one) => sum + one.offsetHeight + 6, 4);
  const texts = Math.min(written, MAX_TEXTS);
  const room = (innerWidth <= 620 ? 420 : pane.clientHeight - others) - above;
  const across = (pane.clientWidth - left - 10) / columns;
  const fitting = (least) => Math.floor(Math.min(across, (room - least) / rows, MAX_CELL) * devicePixelRatio);
  let size = fitting(texts);
  if (size < 6) size = fitting(MIN_TEXTS);
  if (size < 2) size = Math.max(1, Math.min(2, Math.floor(across * devicePixelRatio)));
  const cell = size / devicePixelRatio;
  const isUpright = labelWidth(ink, labels[1]) > cell - 4;
  box = {left, cell, isUpright, top: isUpright ? above : 18};
  box.width = left + columns * cell + 4;
  box.height = box.top + rows * cell + 2;
}

function drawHead() {
  const one = layers[layer];
  byId("bar").querySelector("h2").textContent = `Layer ${one.number + 1}, head ${head + 1}`;
  byId("end").textContent = one.endText;
  if (!one.codes) return;
  layOutHead();
  const {left, top, cell} = box, ink = resize(base, box.width, box.height);
  const entries = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      entries[row * columns + column] = colourOf(one, row, column, weight(row, column));
    }
  }
  const image = pixels(rows, columns, (at) => entries[at]);
  ink.drawImage(image, 0, 0, columns, rows, left, top, columns * cell, rows * cell);
  ink.strokeStyle = theme().hairline;
  ink.strokeRect(left - 0.5, top - 0.5, columns * cell + 1, rows * cell + 1);
  if (cell >= 16) drawGridLines(ink);
  if (cell >= 8) drawExceeding(ink, entries);
  if (cell >= 30) drawValues(ink, entries);
  drawLabels(ink);
  refresh();
}

function drawGridLines(ink) {
  const {left, top, cell} = box;
  ink.fillStyle = theme().paper;
  for (let row = 1; row < rows; row++) ink.fillRect(left, top + row * cell, columns * cell, 1);
  for (let at = 1; at < columns; at++) ink.fillRect(left + at * cell, top, 1, rows * cell);
}

/** Cut the corner of each cell whose weight is beyond the end of the colour scale. */
function drawExceeding(ink, entries) {
  const {left, top, cell} = box, size = Math.min(Math.max(0.22 * cell, 2.5), 8);
  ink.globalAlpha = 0.7;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const entry = entries[row * columns + column];
      if (entry !== LAST_COLOUR || weight(row, column) <= layers[layer].end * 1.001) continue;
      const right = left + (column + 1) * cell, edge = top + row * cell + (cell >= 16 ? 1 : 0);
      ink.fillStyle = colours.ink(entry);
      ink.beginPath();
      ink.moveTo(right - size, edge);
      ink.lineTo(right, edge);
      ink.lineTo(right, edge + size);
      ink.fill();
    }
  }
  ink.globalAlpha = 1;
}

function drawValues(ink, entries) {
  ink.textAlign = "center";
  entries.forEach((entry, at) => {
    if (entry > LAST_COLOUR) return;
    const row = Math.floor(at / columns), column = at % columns;
    ink.fillStyle = colours.ink(entry);
    ink.fillText(shortNumber(weight(row, column)), box.left + (column + 0.5) * box.cell, box.top + (row + 0.5) * box.cell + 0.5);
  });
}

function shortNumber(value) {
  return value < 100 ? roundHalfEven(value, 2) : formatNumber(value, 0);
}

function shorten(ink, text, width = MAX_LABEL) {
  if (ink.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length && ink.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

function labelOf(axis, at) {
  return labels[axis][tokenRange(at, axis)[0]];
}

function drawLabels(ink) {
  const every = Math.max(1, Math.ceil(13 / box.cell));
  ink.fillStyle = theme().quiet;
  for (let at = 0; at < rows; at += every) drawRowLabel(ink, at);
  for (let at = 0; at < columns; at += every) drawColumnLabel(ink, at);
}

function drawRowLabel(ink, at) {
  ink.textAlign = "right";
  ink.fillText(shorten(ink, labelOf(0, at)), box.left - 6, box.top + (at + 0.5) * box.cell + 0.5);
}

function drawColumnLabel(ink, at) {
  const text = shorten(ink, labelOf(1, at), box.isUpright ? MAX_LABEL : box.cell - 2);
  const x = box.left + (at + 0.5) * box.cell;
  ink.save();
  ink.translate(x + (box.isUpright ? 0.5 : 0), box.top - (box.isUpright ? 5 : 9));
  if (box.isUpright) ink.rotate(-Math.PI / 2);
  ink.textAlign = box.isUpright ? "left" : "center";
  ink.fillText(text, 0, 0);
  ink.restore();
}

// ---------------------------------------------------------------- the cell or token in question

function current() {
  return hovered ?? pinned;
}

/** Draw the crosshair, describe the cell, and shade the tokens. */
function refresh() {
  const cell = current();
  drawCrosshair(cell);
  describe(cell);
  shadeTokens(cell);
}

function drawCrosshair(at) {
  const ink = resize(marks, box.width, box.height), {left, top, cell} = box;
  if (!at) return;
  const {accent, paper} = theme(), [right, bottom] = [columns * cell, rows * cell];
  const frame = (x, y, width, height, line) => {
    for (const [colour, thickness] of [[paper, line + 2], [accent, line]]) {
      ink.strokeStyle = colour;
      ink.lineWidth = thickness;
      ink.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
    }
  };
  const isCell = at.row !== null && at.column !== null;
  if (at.row !== null) frame(left, top + at.row * cell, right, cell, 1);
  if (at.column !== null) frame(left + at.column * cell, top, cell, bottom, 1);
  if (isCell) frame(left + at.column * cell, top + at.row * cell, cell, cell, 2);
  ink.font = `600 ${ink.font}`;
  if (at.row !== null) {
    ink.fillStyle = paper;
    ink.fillRect(0, top + (at.row + 0.5) * cell - 8, left - 3, 16);
    ink.fillStyle = accent;
    drawRowLabel(ink, at.row);
  }
  if (at.column !== null) {
    const width = box.isUpright ? 16 : Math.max(cell, 16);
    ink.fillStyle = paper;
    ink.fillRect(left + (at.column + 0.5) * cell - width / 2, 0, width, top - 3);
    ink.fillStyle = accent;
    drawColumnLabel(ink, at.column);
  }
}

/** Append a token to the readout, or the first and the last of several. */
function addToken(at, axis) {
  const [first, last] = tokenRange(at, axis), name = axis ? "key" : "query";
  const quoted = (index) => {
    readout.append("“");
    add(add(readout, "b"), "bdi", "", labels[axis][index]);
    readout.append("”");
  };
  quoted(first);
  if (last > first) {
    readout.append(" … ");
    quoted(last);
  }
  const plural = axis ? "keys" : "queries", number = 1 + (axis ? 0 : page.before);
  readout.append(last > first ? ` (${plural} ${first + number}–${last + number})` : ` (${name} ${first + number})`);
}

function describe(at) {
  readout.replaceChildren();
  if (!at) {
    readout.append("Point at a cell or a token to see its weights. Click to keep it selected.");
  } else if (at.row !== null && at.column !== null) {
    addToken(at.row, 0);
    readout.append(" attends to ");
    addToken(at.column, 1);
    const one = layers[layer], index = [...(page.hasLayers ? [one.index] : []), head, at.row, at.column];
    const text = isMasked(one, at.row, at.column) ? "masked" : formatWeight(weight(at.row, at.column));
    readout.append(": ");
    add(readout, "b", "", text);
    if (page.block === 1) {
      readout.append("  ");
      add(readout, "code", "", `["weights"][${index.join(", ")}]`);
    }
  } else {
    describeLargest(at);
  }
}

/** List the largest weights of a query or of a key. */
function describeLargest(at) {
  const axis = at.row === null ? 0 : 1, count = axis ? columns : rows;
  const values = Array.from({length: count}, (_, other) => (axis ? weight(at.row, other) : weight(other, at.column)));
  const order = [...values.keys()].filter((other) => values[other] > 0).sort((one, other) => values[other] - values[one]);
  addToken(axis ? at.row : at.column, 1 - axis);
  readout.append(axis ? " attends most to " : " is attended to most by ");
  order.slice(0, MAX_LARGEST).forEach((other, place) => {
    if (place) readout.append(", ");
    readout.append("“");
    add(readout, "bdi", "", labelOf(axis, other));
    readout.append("” ");
    add(readout, "b", "", formatWeight(values[other]));
  });
  if (!order.length) readout.append("no token");
}

// -------------------------------------------------------------------------------------- tokens

/** Show the text once if the keys are the queries, and otherwise both texts. */
function buildTexts() {
  const texts = byId("texts");
  for (const axis of isOneText ? [0] : [0, 1]) {
    if (!isOneText) add(texts, "p", "name", axis ? "Keys" : "Queries");
    const made = add(texts, "p", "text");
    made.dir = "auto";
    const words = axis ? page.keys : page.queries;
    const isSpaced = words.some((word) => word.startsWith(" "));
    words.forEach((word, at) => {
      const token = add(made, "span", "token", word.trim() && !/[\n\t]/.test(word) ? word : labels[axis][at]);
      Object.assign(token.dataset, {axis, at});
      if (!isSpaced) made.append(" ");
    });
  }
  byId("directions").hidden = !isOneText;
}

function shadeTokens(at) {
  const isTo = at && (isOneText ? (direction === "to" ? at.row !== null : at.column === null) : false);
  for (const token of document.querySelectorAll(".token")) {
    const axis = Number(token.dataset.axis), place = Math.floor(token.dataset.at / page.block);
    const isKey = isOneText ? isTo : axis === 1;
    const [row, column] = isKey ? [at?.row ?? null, place] : [place, at?.column ?? null];
    const isShaded = at && row !== null && column !== null;
    const entry = isShaded ? colourOf(layers[layer], row, column, weight(row, column)) : MASKED;
    const isPlain = !isShaded || entry === MASKED;
    token.style.background = isPlain ? "" : colours.of(entry);
    token.style.color = isPlain ? (isShaded ? theme().quiet : "") : colours.ink(entry);
    const isHere = at && (axis === 1 ? at.column === place : at.row === place || (isOneText && at.column === place));
    token.classList.toggle("here", Boolean(isHere));
  }
  for (const name of ["to", "by"]) byId(name).setAttribute("aria-pressed", String(name === direction));
}

/** Return the cell or the single row or column that a token stands for. */
function cellOfToken(token) {
  const place = Math.floor(token.dataset.at / page.block);
  const isQuery = isOneText ? direction === "to" : token.dataset.axis === "0";
  return isQuery ? {row: place, column: null} : {row: null, column: place};
}

/** Combine the token under the pointer with the selected token, if they are a query and a key. */
function cellUnderPointer(token) {
  const own = cellOfToken(token), place = own.row ?? own.column;
  if (!pinned || (pinned.row !== null) === (pinned.column !== null)) return own;
  if (isOneText) {
    return direction === "to" ? {row: pinned.row, column: place} : {row: place, column: pinned.column};
  }
  const isPair = (own.row === null) !== (pinned.row === null);
  return isPair ? {row: own.row ?? pinned.row, column: own.column ?? pinned.column} : own;
}

function isSame(one, other) {
  return one?.row === other?.row && one?.column === other?.column;
}

function pin(cell) {
  pinned = isSame(cell, pinned) ? null : cell;
  hovered = null;
  refresh();
}

/** Choose whether the tokens show what a query attends to, or what attends to a key. */
function setDirection(name) {
  const other = name === "to" ? "column" : "row"; // a single token changes its role
  if (pinned && pinned[other] !== null && (pinned.row === null || pinned.column === null)) {
    pinned = {row: pinned.column, column: pinned.row};
  }
  direction = name;
  refresh();
}

// --------------------------------------------------------------------------------- interaction

function cellAt(event) {
  const area = matrix.getBoundingClientRect();
  const row = Math.floor((event.clientY - area.top - box.top) / box.cell);
  const column = Math.floor((event.clientX - area.left - box.left) / box.cell);
  return row >= 0 && row < rows && column >= 0 && column < columns ? {row, column} : null;
}

function hover(cell) {
  if (isSame(cell, hovered) && Boolean(cell) === Boolean(hovered)) return;
  hovered = cell;
  refresh();
}

function moveCell(down, right) {
  const from = pinned ?? {row: 0, column: 0};
  const row = Math.max(0, Math.min(rows - 1, (from.row ?? 0) + (pinned ? down : 0)));
  const column = Math.max(0, Math.min(columns - 1, (from.column ?? 0) + (pinned ? right : 0)));
  pinned = {row, column};
  hovered = null;
  refresh();
}

/** Call a function for keys without modifiers, and suppress their default action if it returns true. */
function onKeys(element, handle) {
  element.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !handle(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function addListeners() {
  map.addEventListener("click", (event) => {
    const found = headAt(event);
    if (found) selectHead(...found);
  });
  map.addEventListener("pointermove", (event) => {
    const found = headAt(event);
    map.title = found ? `Layer ${layers[found[0]].number + 1}, head ${found[1] + 1}` : "";
  });
  onKeys(byId("heads"), (key) => {
    if (STEPS[key]) selectHead(layer + STEPS[key][0], head + STEPS[key][1]);
    else if (key === "Enter") {
      matrix.focus();
      moveCell(0, 0);
    } else return false;
    return true;
  });
  matrix.addEventListener("pointermove", (event) => hover(cellAt(event)));
  matrix.addEventListener("pointerleave", () => hover(null));
  matrix.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) pin(cell);
  });
  onKeys(matrix, (key) => {
    if (STEPS[key]) moveCell(...STEPS[key]);
    else if (key === "Escape") {
      pinned = hovered = null;
      refresh();
      byId("heads").focus();
    } else if (key === "PageUp" || key === "PageDown") stepHead(key === "PageUp" ? -1 : 1);
    else if (key === "Enter") setDirection(direction === "to" ? "by" : "to");
    else return false;
    return true;
  });
  const texts = byId("texts"), tokenOf = (event) => event.target.closest?.(".token");
  texts.addEventListener("pointerover", (event) => hover(tokenOf(event) ? cellUnderPointer(tokenOf(event)) : null));
  texts.addEventListener("pointerleave", () => hover(null));
  texts.addEventListener("click", (event) => {
    if (tokenOf(event)) pin(cellOfToken(tokenOf(event)));
  });
  for (const name of ["to", "by"]) byId(name).addEventListener("click", () => setDirection(name));
  onKeys(document, (key) => {
    if (key !== "Escape" || !pinned) return false;
    pinned = null;
    refresh();
    return true;
  });
  byId("scheme").hidden = false;
  byId("scheme").addEventListener("click", () => {
    chosenTheme = theme().name === "dark" ? "light" : "dark";
    draw();
  });
  system.addEventListener("change", draw);
  // A frame outside the visible part of a notebook has no size yet, and gets no event "resize".
  // The first report of the observer is usually the size that was drawn.
  new ResizeObserver(() => {
    if (drawnSize !== pageSize()) draw();
  }).observe(document.documentElement);
}

/** Show the previous or the next head, in the order of the layers. */
function stepHead(by) {
  let at = layer, of = head + by;
  if (of < 0 && at > 0) of = layers[--at].heads - 1;
  else if (of >= layers[at].heads && at + 1 < layers.length) [at, of] = [at + 1, 0];
  selectHead(at, of);
}

function pageSize() {
  const {width, height} = document.documentElement.getBoundingClientRect();
  return `${width} × ${height}`;
}

function draw() {
  drawnSize = pageSize();
  readColours();
  layOutGrid();
  const bar = byId("scale").querySelector("canvas"), ink = resize(bar, 80, 8);
  ink.drawImage(pixels(1, LAST_COLOUR + 1, (at) => at), 0, 0, LAST_COLOUR + 1, 1, 0, 0, 80, 8);
  selectHead(layer, head);
}

async function start() {
  document.querySelector("h1").textContent = page.title;
  byId("sizes").textContent = page.sizes;
  document.querySelector("footer").textContent = page.notes.join(" ");
  document.querySelector("main").hidden = false;
  byId("heads").hidden = layers.length === 1 && layers[0].heads === 1;
  buildTexts();
  readColours();
  const packed = [...document.querySelectorAll("script.layer")], unpacking = [], masks = unpackMasks();
  let drawn = 0, next = performance.now() + DRAWING_INTERVAL_MS;
  for (let at = 0; at < layers.length; at++) {
    while (unpacking.length < Math.min(layers.length, at + MAX_UNPACKING)) unpacking.push(unpackNext());
    await Promise.all([masks, unpacking[at]]);
    if (at + 1 < layers.length && performance.now() < next) continue;
    if (drawn === 0) draw();
    else for (; drawn <= at; drawn++) drawSmall(layers[drawn], drawn);
    drawn = at + 1;
    next = performance.now() + DRAWING_INTERVAL_MS;
  }
  function unpackNext() {
    const element = packed[unpacking.length], text = element.textContent;
    element.remove();
    return unpackLayer(layers[unpacking.length], text);
  }
  addListeners();
}

const ready = start();
