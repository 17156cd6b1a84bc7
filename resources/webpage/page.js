"use strict";
// Draws the heatmaps that stand in this page as data, and lights them up under the pointer and the
// keys. Text is only ever put in as text.

const FORBIDDEN = 1, DROPPED = 2, HIDDEN = 4, UNEVEN = 8, BELOW = 16, ABOVE = 32;
const LARGEST = 252, BLANK = 254; // of the colours: the last number's, and the first mark's
const GAP = 24, LINE = 16, LONGEST_LABEL = 88, NARROWEST = 100, SMALLEST_SIDE = 130;
const LARGEST_CELL = 88, PAPER_WIDTH = 1000, MOST_IN_A_TABLE = 1000;
const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

const board = JSON.parse(document.getElementById("board").textContent);
const panels = [];
const tip = document.getElementById("tip");
const pen = document.createElement("canvas").getContext("2d");
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = board.theme, isPrinting = false, density = 1;
let pointed = null, pinned = null;

// ------------------------------------------------------------------------------------- words

/** Write a number as the program does: a tie goes to the even digit, which toFixed does not. */
function written(value, decimals = 4) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const isPlain = size === 0 || (size >= 0.5 * Number(`1e-${decimals}`) && size < 1e5);
  const text = isPlain ? rounded(size, decimals) : withExponent(size);
  return value < 0 && /[^0.]/.test(text) ? `−${text}` : text;
}

function rounded(size, decimals) {
  const halves = size * 2 ** (decimals + 1), times = Number(`1e${decimals}`);
  if (halves % 2 !== 1) return size.toFixed(decimals);
  const below = Math.floor(size * times);
  return ((below + below % 2) / times).toFixed(decimals);
}

function withExponent(size) {
  let [digits, power] = size.toExponential(2).split("e");
  const exact = Number(size.toExponential(20).split("e")[1]);
  const half = exact < 5 ? 0 : 5 * Number(`1e${exact - 3}`);
  if (half && size % half === 0 && size / half % 2 === 1) {
    const below = (size / half - 1) / 2;
    [digits, power] = ((below + below % 2) * 2 * half).toExponential(2).split("e");
  }
  const sign = power.startsWith("-") ? "-" : "+";
  return `${digits}e${sign}${power.replace(/^[+-]/, "").padStart(2, "0")}`;
}

function axisName(name) {
  return {d_head: "column", d_in: "column", d_out: "column"}[name] ?? name;
}

/** Say what rows and columns are, and which of the tokens are seen where not all are. */
function axesOf(panel) {
  const axes = `${axisName(panel.rows.name)} ↓  ${axisName(panel.columns.name)} →`;
  const seen = [panel.rows, panel.columns].filter((axis) => axis.stop - axis.start < axis.count);
  const parts = seen.map((axis) => `${axis.start + 1}–${axis.stop}`);
  if (!seen.length) return [axes];
  return [axes, `${parts.join(" × ")} of ${seen[0].count.toLocaleString("en")}`];
}

/** Say which token or column a drawn cell is of: its parts, tokens as objects. */
function place(axis, cell) {
  const first = axis.start + cell * axis.block, last = Math.min(first + axis.block, axis.stop) - 1;
  const labels = board.labels[axis.labels];
  const name = axisName(axis.name);
  if (first === last) {
    return axis.isToken ? [`${name} ${first + 1} “`, {token: labels[first]}, "”"]
      : [`${name} ${first + 1}`];
  }
  const many = name === "query" ? "queries" : `${name}s`;
  if (!axis.isToken) return [`${many} ${first + 1}–${last + 1}`];
  return [`${many} ${first + 1}–${last + 1} “`, {token: labels[first]}, " … ",
    {token: labels[last]}, "”"];
}

/** Say what the number of a cell is, or what it is instead of a number of its scale. */
function told(panel, row, column) {
  const at = row * panel.shape[1] + column, mark = panel.marks[at];
  const value = written(panel.values[at]);
  if (mark & FORBIDDEN) return value === "−∞" ? "−∞, forbidden" : "forbidden";
  if (mark & DROPPED) return "dropped";
  if (mark & HIDDEN) return "hidden";
  const pooled = panel.pooled ? `, ${panel.pooled}` : "";
  const sign = panel.isChange && panel.values[at] > 0 ? "+" : "";
  return sign + value + pooled + (mark & UNEVEN ? ", forbidden in one of the two" : "");
}

function sentence(panel, row, column) {
  const stage = panel.isChange ? `, ${panel.stage}` : "";
  const whose = stage + (panel.label ? `, ${panel.label.toLowerCase()}` : "");
  return [`${panel.title}${whose}: `, ...place(panel.rows, row), ", ",
    ...place(panel.columns, column)];
}

// ------------------------------------------------------------------------------------- parts

function add(parent, name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  parent?.append(made);
  return made;
}

function theme() {
  if (isPrinting) return board.themes.print;
  return board.themes[chosen || (system.matches ? "dark" : "light")];
}

function colours(panel) {
  const [digits, light] = board.tables[theme().name][panel.map];
  return {
    of: (at) => `#${digits.slice(6 * at, 6 * at + 6)}`,
    words: (at) => Number.parseInt(digits.slice(6 * at, 6 * at + 6), 16),
    isLight: (at) => light[at] === "1",
  };
}

function textWidth(text, size = 12, weight = 400) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

const widths = new Map();

function widest(labels) {
  if (!widths.has(labels)) {
    const measured = board.labels[labels].slice(0, 200).map((label) => textWidth(label));
    widths.set(labels, Math.min(LONGEST_LABEL, Math.max(0, ...measured)));
  }
  return widths.get(labels);
}

async function unpack(panel, text) {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let at = 0; at < packed.length; at++) packed[at] = letters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = panel.shape[0] * panel.shape[1], size = panel.bytes;
  panel.entries = bytes.subarray(0, count);
  panel.marks = bytes.subarray(count, 2 * count);
  const planes = bytes.subarray(2 * count), joined = new Uint8Array(size * count);
  for (let plane = 0; plane < size; plane++) {
    for (let at = 0; at < count; at++) joined[at * size + plane] = planes[plane * count + at];
  }
  panel.values = size === 8 ? new Float64Array(joined.buffer) : new Float32Array(joined.buffer);
}

function build(panel) {
  const figure = add(null, "figure", "panel");
  const box = {figure};
  if (panel.label && panel.isLabelled) {
    const whose = add(figure, "div", "whose");
    if (panel.head !== null) box.dot = add(whose, "span", "dot");
    add(whose, "span", "", panel.label);
  }
  for (const name of ["above", "left", "cells", "right", "below"]) {
    box[name] = add(figure, "div", name);
  }
  box.colours = add(box.cells, "canvas", "colours");
  box.drawn = add(box.cells, "canvas");
  box.scale = add(box.below, "div", "scale");
  box.bar = add(box.scale, "canvas", "colours");
  const ends = add(box.scale, "div", "ends");
  for (const end of panel.ends) add(ends, "span", "", end);
  if (panel.isSigned) add(ends, "span", "zero");
  for (const note of panel.notes) add(box.below, "p", "", note);
  box.cells.tabIndex = 0;
  box.cells.setAttribute("role", "application");
  box.cells.setAttribute("aria-roledescription", "heatmap");
  const whose = panel.label ? `, ${panel.label}` : "";
  const size = `${panel.rows.count} × ${panel.columns.count}`;
  const said = [`${panel.title}${whose}, ${size}`, ...panel.notes].join("; ");
  box.cells.setAttribute("aria-label", said);
  panel.box = box;
  listen(panel);
}

// ------------------------------------------------------------------------------------ layout

const isWrapped = board.columns.length === 1 && board.columns[0].length > 1;

function cellWidth(panel, cell) {
  if (panel.columns.isToken) return cell;
  const [rows, columns] = panel.shape;
  const room = Math.max(rows * cell, SMALLEST_SIDE, 4 * cell);
  return Math.min(cell, Math.max(1, Math.floor(room / columns * density)) / density);
}

function gutter(panel) {
  return panel.isLabelled ? Math.max(64, widest(panel.rows.labels) + 14) : 4;
}

function outer(panel, cell) {
  const lines = [panel.ends.join("  "), ...panel.notes, ...axesOf(panel)];
  panel.least ??= Math.max(NARROWEST, ...lines.map((line) => textWidth(line) + 16));
  const cells = panel.shape[1] * cellWidth(panel, cell) + 8;
  return gutter(panel) + Math.max(cells, panel.least) + (panel.sums ? 60 : 0);
}

/** Find the largest cell, in whole device pixels, with which all stages fit side by side. */
function fittingCell(width) {
  const rows = Math.max(...board.columns.map((column) => column[0].shape[0]));
  const height = isPrinting ? 480 : Math.max(240, innerHeight - 240);
  const largest = Math.min(LARGEST_CELL, Math.max(height, SMALLEST_SIDE) / rows);
  const least = Math.max(1, Math.ceil(Math.min(largest, SMALLEST_SIDE / rows) * density));
  const fits = (cell) => {
    const firsts = board.columns.map((column) => outer(column[0], cell) + GAP);
    const across = isWrapped ? Math.min(4, board.columns[0].length) : 1;
    return across * firsts.reduce((sum, one) => sum + one, -GAP / across) <= width;
  };
  for (let pixels = Math.floor(largest * density); pixels > least; pixels--) {
    if (fits(pixels / density)) return pixels / density;
  }
  return least / density;
}

function isUpright(panel) {
  return panel.columns.isToken && widest(panel.columns.labels) > panel.width - 4;
}

function lay() {
  density = isPrinting ? 1 : devicePixelRatio;
  const width = document.getElementById("panels").clientWidth;
  const cell = fittingCell(isPrinting ? PAPER_WIDTH : width);
  for (const panel of panels) {
    panel.width = cellWidth(panel, cell);
    panel.height = cell;
  }
  const needs = (panel) => (isUpright(panel) ? widest(panel.columns.labels) : LINE);
  const top = Math.max(...panels.map(needs)) + (panels.some((panel) => panel.label) ? 26 : 8);
  for (const panel of panels) {
    const {above, left, right, cells, scale} = panel.box, [rows, columns] = panel.shape;
    const [width, height] = [columns * panel.width, rows * panel.height];
    Object.assign(cells.style, {width: `${width}px`, height: `${height}px`});
    Object.assign(above.style, {width: `${width}px`, height: `${top}px`});
    Object.assign(left.style, {width: `${gutter(panel)}px`, height: `${height}px`});
    Object.assign(right.style, {width: panel.sums ? "60px" : "0", height: `${height}px`});
    scale.style.width = `${Math.max(96, Math.min(width, 200))}px`;
    label(panel);
  }
}

/** Choose the labels that have room: all of them, or evenly fewer. */
function shownLabels(axis, cell, needed) {
  let step = axis.block * Math.max(1, Math.ceil(needed / cell - 0.25));
  const isNamed = axis.isToken || step === 1;
  if (!isNamed) {
    const size = 10 ** Math.floor(Math.log10(step));
    step = [1, 2, 5, 10].map((times) => times * size).find((round) => round >= step);
  }
  let at = isNamed ? 0 : step - 1;
  at += Math.ceil((axis.start - at) / step) * step;
  const found = [];
  for (; at < axis.stop; at += step) found.push(at);
  return found;
}

function label(panel) {
  const {above, left, right} = panel.box, {rows, columns, sums} = panel;
  for (const side of [above, left, right]) side.replaceChildren();
  if (panel.isLabelled) {
    for (const at of shownLabels(rows, panel.height, LINE)) rowLabel(panel, at);
  }
  const needed = isUpright(panel) ? LINE : Math.max(panel.width, widest(columns.labels) + 8);
  for (const at of shownLabels(columns, panel.width, needed)) columnLabel(panel, at);
  if (sums) {
    const step = Math.max(1, Math.ceil(LINE / panel.height));
    for (let row = 0; row < sums.length; row += step) {
      add(right, "span", "label", `Σ ${sums[row]}`).style.top = `${(row + 0.5) * panel.height}px`;
    }
    const head = add(right, "span", "label", "row sum");
    head.style.top = "-10px";
  }
}

function rowLabel(panel, at) {
  const made = add(panel.box.left, "span", "label", board.labels[panel.rows.labels][at]);
  const cell = Math.floor((at - panel.rows.start) / panel.rows.block);
  made.style.top = `${(cell + 0.5) * panel.height}px`;
  made.dataset.at = (cell + 0.5) * panel.height;
  return made;
}

function columnLabel(panel, at) {
  const made = add(panel.box.above, "span", "label", board.labels[panel.columns.labels][at]);
  const cell = Math.floor((at - panel.columns.start) / panel.columns.block);
  const isTurned = isUpright(panel), centre = (cell + 0.5) * panel.width;
  if (isTurned) made.classList.add("upright");
  made.style.left = `${isTurned ? centre + LINE / 2 : centre}px`;
  made.dataset.at = centre;
  return made;
}

// ----------------------------------------------------------------------------------- drawing

function paint(panel) {
  const {colours: base, bar, dot} = panel.box, table = colours(panel);
  const [rows, columns] = panel.shape;
  picture(base, columns, rows, (at) => table.words(panel.entries[at]));
  picture(bar, LARGEST + 1, 1, (at) => table.words(at));
  const heads = theme().heads;
  if (dot) dot.style.background = heads[panel.head % heads.length];
  const sharpness = isPrinting ? 2 : devicePixelRatio; // Chromium misplaces thirds on paper
  const canvas = panel.box.drawn, ink = canvas.getContext("2d");
  canvas.width = Math.round(columns * panel.width * sharpness);
  canvas.height = Math.round(rows * panel.height * sharpness);
  ink.scale(canvas.width / (columns * panel.width), canvas.height / (rows * panel.height));
  if (isPrinting) { // paper has no cells that are whole pixels, and would blur them
    const large = document.createElement("canvas"), {width, height} = canvas;
    Object.assign(large, {width, height});
    const copy = large.getContext("2d");
    copy.imageSmoothingEnabled = false;
    copy.drawImage(base, 0, 0, width, height);
    ink.drawImage(large, 0, 0, columns * panel.width, rows * panel.height);
  }
  if (Math.min(panel.width, panel.height) >= 20) lines(panel, ink);
  marks(panel, ink, table);
  numbers(panel, ink, table);
}

/** Make a picture of one pixel a cell. */
function picture(canvas, width, height, word) {
  Object.assign(canvas, {width, height});
  const ink = canvas.getContext("2d"), image = ink.createImageData(width, height);
  const pixels = new DataView(image.data.buffer);
  for (let at = 0; at < width * height; at++) pixels.setUint32(4 * at, word(at) * 256 + 255);
  ink.putImageData(image, 0, 0);
}

function lines(panel, ink) {
  const [rows, columns] = panel.shape;
  const width = columns * panel.width, height = rows * panel.height;
  ink.fillStyle = theme().paper;
  for (let row = 1; row < rows; row++) ink.fillRect(0, row * panel.height, width, 1);
  for (let at = 1; at < columns; at++) ink.fillRect(at * panel.width, 0, 1, height);
}

function marks(panel, ink, table) {
  const {width, height} = panel, [, columns] = panel.shape;
  const share = height >= 20 ? 0.25 : 1, size = Math.min(width, height, 36) / 4;
  hatch(panel, ink, FORBIDDEN, theme().hatch, 1);
  hatch(panel, ink, UNEVEN, theme().border, share);
  panel.marks.forEach((mark, at) => {
    if (!(mark & (DROPPED | BELOW | ABOVE))) return;
    const left = at % columns * width, top = Math.floor(at / columns) * height;
    if (mark & DROPPED && width >= 6) cross(ink, left, top, width, height);
    if (mark & (BELOW | ABOVE) && size >= 3) {
      ink.fillStyle = table.isLight(panel.entries[at]) ? "#000000" : "#FFFFFF";
      triangle(ink, left + width - 2, top + 2, size, mark & ABOVE);
    }
  });
}

/** Hatch the cells with a mark, those side by side as one, along so much of their height. */
function hatch(panel, ink, mark, colour, share) {
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

/** Draw the diagonals that cross an area; those of areas side by side meet. */
function diagonals(ink, left, top, right, bottom) {
  for (let sum = Math.ceil((left + top) / 8) * 8; sum < right + bottom; sum += 8) {
    const start = Math.max(left, sum - bottom), end = Math.min(right, sum - top);
    ink.moveTo(start, sum - start);
    ink.lineTo(end, sum - end);
  }
}

function cross(ink, left, top, width, height) {
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

function triangle(ink, right, top, size, isUp) {
  const [base, tipped] = isUp ? [top + size, top] : [top, top + size];
  ink.beginPath();
  ink.moveTo(right - size, base);
  ink.lineTo(right, base);
  ink.lineTo(right - size / 2, tipped);
  ink.fill();
}

function numbers(panel, ink, table) {
  if (panel.pooled || panel.width < 24) return;
  const values = Array.from(panel.values);
  let texts = values.map((value) => written(value));
  const fitting = (usual) => fittingSize(texts, panel.width, usual);
  let size = fitting("−0.0000") || fitting("0.0000");
  if (!size && panel.isChange && panel.isCoarse) {
    texts = values.map((value) => (Math.abs(value) >= 0.005 ? written(value, 2) : "0"));
    size = fitting("−0.00");
  }
  if (!size) return;
  ink.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  ink.textAlign = "center";
  ink.textBaseline = "middle";
  texts.forEach((text, at) => {
    const entry = panel.entries[at];
    if (entry >= BLANK && text !== "−∞") return; // the mark says it
    ink.fillStyle = entry >= BLANK ? theme().quiet : table.isLight(entry) ? "#000000" : "#FFFFFF";
    const row = Math.floor(at / panel.shape[1]), column = at % panel.shape[1];
    ink.fillText(text, (column + 0.5) * panel.width, (row + 0.5) * panel.height + 0.5);
  });
}

/** Choose the size at which every number fits its cell; 0 where none is readable. */
function fittingSize(texts, width, usual) {
  const longest = texts.reduce((most, text) => (text.length > most.length ? text : most), usual);
  const size = Math.floor(Math.min(18, 12 * (width - 4) / textWidth(longest)));
  return size < 9 ? 0 : size;
}

// ------------------------------------------------------------------------- pointing and walking

function listen(panel) {
  const cells = panel.box.cells;
  const at = (event) => {
    const area = cells.getBoundingClientRect(), [rows, columns] = panel.shape;
    const row = Math.floor((event.clientY - area.top) / panel.height);
    const column = Math.floor((event.clientX - area.left) / panel.width);
    const isInside = row >= 0 && row < rows && column >= 0 && column < columns;
    return isInside ? {panel, row, column} : null;
  };
  cells.addEventListener("pointermove", (event) => point(at(event)));
  cells.addEventListener("pointerdown", (event) => {
    const cell = at(event);
    pinned = isSame(cell, pinned) ? null : cell;
    point(cell);
  });
  cells.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  cells.addEventListener("focus", () => {
    if (cells.matches(":focus-visible")) walk(panel, 0, 0);
  });
  cells.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (STEPS[event.key]) walk(panel, ...STEPS[event.key]);
    else if (event.key === "Escape") point((pinned = null));
    else return;
    event.preventDefault();
  });
}

function isSame(one, other) {
  return one?.panel === other?.panel && one?.row === other?.row && one?.column === other?.column;
}

/** Go a drawn cell down or right; over an edge into the next head or stage. */
function walk(panel, down, right) {
  const isThere = pinned?.panel === panel;
  let row = isThere ? pinned.row + down : 0, column = isThere ? pinned.column + right : 0;
  let next = panel;
  const across = board.columns.findIndex((one) => one.includes(panel));
  const along = board.columns[across].indexOf(panel);
  if (row < 0 || row >= panel.shape[0]) {
    next = board.columns[across][along + down];
    row = down > 0 ? 0 : (next?.shape[0] ?? 0) - 1;
  } else if (column < 0 || column >= panel.shape[1]) {
    const beside = board.columns[across + right];
    next = beside?.[Math.min(along, beside.length - 1)];
    column = right > 0 ? 0 : (next?.shape[1] ?? 0) - 1;
  }
  if (!next) return;
  const [rows, columns] = next.shape;
  pinned = {panel: next, row: Math.min(row, rows - 1), column: Math.min(column, columns - 1)};
  if (next !== panel) next.box.cells.focus();
  point(null);
}

function point(cell) {
  if (cell && isSame(cell, pointed)) return;
  pointed = cell;
  light();
}

/** Give the first and last row or column of the stage that a drawn cell holds. */
function span(axis, cell) {
  const first = axis.start + cell * axis.block;
  return {first, last: Math.min(first + axis.block, axis.stop) - 1};
}

function light() {
  const cell = pointed ?? pinned, lit = {};
  if (cell) {
    lit[cell.panel.role] = span(cell.panel.rows, cell.row);
    const across = span(cell.panel.columns, cell.column);
    if (cell.panel.columns.name === "key") lit.key = across;
    else lit.column = across;
  }
  for (const panel of panels) {
    const {figure} = panel.box;
    for (const old of figure.querySelectorAll(".lit, .band, .here")) old.remove();
    for (const old of figure.querySelectorAll(".covered")) old.classList.remove("covered");
    const isKin = cell && panel.text === cell.panel.text && !panel.isAlone && !cell.panel.isAlone;
    if (!cell || (!isKin && panel !== cell.panel)) continue;
    const isColumn = panel.columns.name !== "key" && panel.stage === cell.panel.stage;
    band(panel, lit[panel.role], true);
    band(panel, panel.columns.name === "key" ? lit.key : isColumn ? lit.column : null, false);
    if (panel === cell.panel) frame(panel, "here", cell.row, cell.column, 1, 1);
  }
  tell(cell);
}

function band(panel, lit, isRow) {
  const axis = isRow ? panel.rows : panel.columns;
  if (!lit || lit.last < axis.start || lit.first >= axis.stop) return;
  const first = Math.max(0, Math.floor((lit.first - axis.start) / axis.block));
  const last = Math.floor((Math.min(lit.last, axis.stop - 1) - axis.start) / axis.block);
  const [rows, columns] = panel.shape, count = last - first + 1;
  if (isRow) frame(panel, "band", first, 0, count, columns);
  else frame(panel, "band", 0, first, rows, count);
  const at = Math.max(lit.first, axis.start);
  if (!isRow) lightLabel(columnLabel(panel, at), isUpright(panel) ? LINE : 0);
  else if (panel.isLabelled) lightLabel(rowLabel(panel, at), LINE);
}

/** Write a label in the accent, in place of those that it would touch. */
function lightLabel(made, around) {
  made.classList.add("lit");
  const near = around || made.offsetWidth / 2 + 4;
  for (const other of made.parentElement.children) {
    const distance = Math.abs(other.dataset.at - made.dataset.at);
    const isNear = distance < (around || near + other.offsetWidth / 2);
    if (other !== made && isNear) other.classList.add("covered");
  }
}

function frame(panel, className, row, column, rows, columns) {
  Object.assign(add(panel.box.cells, "div", className).style, {
    top: `${row * panel.height}px`, height: `${rows * panel.height}px`,
    left: `${column * panel.width}px`, width: `${columns * panel.width}px`,
  });
}

function tell(cell) {
  tip.hidden = !cell;
  if (!cell) return;
  const {panel, row, column} = cell;
  const parts = sentence(panel, row, column).map((part) => {
    if (typeof part === "string") return part;
    const made = add(null, "b");
    add(made, "bdi", "", part.token);
    return made;
  });
  const value = add(null, "span", "value", told(panel, row, column));
  tip.replaceChildren(...parts, " ", value);
  const area = panel.box.cells.getBoundingClientRect();
  const x = area.left + (column + 1) * panel.width + 12;
  const y = area.top + (row + 1) * panel.height + 12;
  const {offsetWidth, offsetHeight} = tip;
  const left = x + offsetWidth > innerWidth ? x - offsetWidth - panel.width - 24 : x;
  const top = y + offsetHeight > innerHeight ? y - offsetHeight - panel.height - 24 : y;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

// ------------------------------------------------------------------------------------- tables

function fillTables() {
  const all = document.getElementById("tables");
  if (all.querySelector("table")) return;
  for (const panel of panels.filter(hasTable)) {
    const table = add(add(all, "div", "scroll"), "table"), [rows, columns] = panel.shape;
    add(table, "caption", "", panel.title + (panel.label ? `, ${panel.label.toLowerCase()}` : ""));
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    add(head, "th", "", axesOf(panel)[0]);
    const labels = [panel.rows, panel.columns].map((axis) => board.labels[axis.labels]);
    for (let column = 0; column < columns; column++) {
      add(head, "th", "", labels[1][panel.columns.start + column]).scope = "col";
    }
    for (let row = 0; row < rows; row++) {
      const line = add(body, "tr");
      add(line, "th", "", labels[0][panel.rows.start + row]).scope = "row";
      for (let at = 0; at < columns; at++) add(line, "td", "", told(panel, row, at));
    }
  }
}

function hasTable(panel) {
  return !panel.pooled && panel.shape[0] * panel.shape[1] <= MOST_IN_A_TABLE;
}

// ---------------------------------------------------------------------------------- the whole

function title(panel, container) {
  const made = add(container, "div", "title");
  add(made, "h2", "", panel.title);
  for (const line of axesOf(panel)) add(made, "p", "", line);
  return made;
}

function arrange() {
  const main = document.getElementById("panels");
  if (isWrapped) title(panels[0], main);
  const grid = add(main, "div", isWrapped ? "wrapped" : "grid");
  board.columns.forEach((column, across) => {
    column.forEach((panel, along) => {
      if (!isWrapped && along === 0) {
        panel.box.title = title(panel, grid);
        panel.box.title.style.gridArea = `1 / ${across + 1}`;
      }
      if (!isWrapped) panel.box.figure.style.gridArea = `${along + 2} / ${across + 1}`;
      grid.append(panel.box.figure);
    });
  });
}

function draw() {
  const values = theme();
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === "string") document.documentElement.style.setProperty(`--${name}`, value);
  }
  const isDark = values.name === "dark";
  document.documentElement.style.colorScheme = isDark ? "dark" : "light";
  document.getElementById("scheme").textContent = isDark ? "Light colours" : "Dark colours";
  if (!panels.length) return;
  lay();
  for (const panel of panels) {
    paint(panel);
    if (panel.box.title) panel.box.title.style.paddingLeft = `${gutter(panel)}px`;
  }
  light();
}

async function start() {
  document.querySelector("h1").textContent = board.title;
  document.getElementById("caption").textContent = board.caption;
  document.getElementById("said").textContent = board.said;
  const packed = document.querySelectorAll("script.cells");
  const found = board.columns.flat();
  for (const [at, panel] of found.entries()) {
    await unpack(panel, packed[at].textContent);
    packed[at].remove();
    build(panel);
  }
  panels.push(...found);
  if (found.length) arrange();
  draw();
  const scheme = document.getElementById("scheme");
  scheme.hidden = document.getElementById("help").hidden = false;
  scheme.addEventListener("click", () => {
    chosen = theme().name === "dark" ? "light" : "dark";
    draw();
  });
  system.addEventListener("change", draw);
  addEventListener("resize", draw);
  for (const [name, isNow] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      isPrinting = isNow;
      draw();
    });
  }
  const again = () => tell(pointed ?? pinned);
  document.addEventListener("scroll", again, {capture: true, passive: true});
  const tables = document.getElementById("tables");
  tables.hidden = !panels.some(hasTable);
  tables.addEventListener("toggle", fillTables);
}

const ready = start();
