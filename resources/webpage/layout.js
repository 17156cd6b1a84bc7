// Creates and lays out the parts of a panel.

function theme() {
  if (isPrinting) return page.themes.print;
  return page.themes[chosen || (system.matches ? "dark" : "light")];
}

function colours(panel) {
  const [digits, light] = page.tables[theme().name][panel.map];
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

function maxLabelWidth(labels) {
  if (!widths.has(labels)) {
    const measured = page.labels[labels].slice(0, 200).map((label) => textWidth(label));
    widths.set(labels, Math.min(MAX_LABEL_WIDTH, Math.max(0, ...measured)));
  }
  return widths.get(labels);
}

async function unpack(panel, text) {
  const bytes = await inflate(text);
  const count = panel.shape[0] * panel.shape[1], size = panel.bytes;
  panel.entries = bytes.subarray(0, count);
  panel.marks = bytes.subarray(count, 2 * count);
  const joined = joinPlanes(bytes.subarray(2 * count), size);
  panel.values = size === 8 ? new Float64Array(joined) : new Float32Array(joined);
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
  addListeners(panel);
}

// ------------------------------------------------------------------------------------ layout

const isWrapped = board.columns.length === 1 && board.columns[0].length > 1;

function cellWidth(panel, cell) {
  if (panel.columns.isToken) return cell;
  const [rows, columns] = panel.shape;
  const room = Math.max(rows * cell, MIN_SIDE, 4 * cell);
  return Math.min(cell, Math.max(1, Math.floor(room / columns * density)) / density);
}

function gutter(panel) {
  return panel.isLabelled ? Math.max(64, maxLabelWidth(panel.rows.labels) + 14) : 4;
}

function panelWidth(panel, cell) {
  const lines = [panel.ends.join("  "), ...panel.notes, ...axesOf(panel)];
  panel.least ??= Math.max(MIN_PANEL_WIDTH, ...lines.map((line) => textWidth(line) + 16));
  const cells = panel.shape[1] * cellWidth(panel, cell) + 8;
  return gutter(panel) + Math.max(cells, panel.least) + (panel.sums ? 60 : 0);
}

/** Return the largest cell size, in whole device pixels, at which all stages fit side by side. */
function fittingCell(width) {
  const rows = Math.max(...board.columns.map((column) => column[0].shape[0]));
  const height = isPrinting ? 480 : Math.max(240, innerHeight - 240);
  const largest = Math.min(MAX_CELL_SIZE, Math.max(height, MIN_SIDE) / rows);
  const least = Math.max(1, Math.ceil(Math.min(largest, MIN_SIDE / rows) * density));
  const fits = (cell) => {
    const firsts = board.columns.map((column) => panelWidth(column[0], cell) + GAP);
    const across = isWrapped ? Math.min(4, board.columns[0].length) : 1;
    return across * firsts.reduce((sum, one) => sum + one, -GAP / across) <= width;
  };
  for (let pixels = Math.floor(largest * density); pixels > least; pixels--) {
    if (fits(pixels / density)) return pixels / density;
  }
  return least / density;
}

function isUpright(panel) {
  return panel.columns.isToken && maxLabelWidth(panel.columns.labels) > panel.width - 4;
}

function layOut() {
  density = isPrinting ? 1 : devicePixelRatio;
  const width = document.getElementById("panels").clientWidth;
  const cell = fittingCell(isPrinting ? PAPER_WIDTH : width);
  for (const panel of panels) {
    panel.width = cellWidth(panel, cell);
    panel.height = cell;
  }
  const needs = (panel) => (isUpright(panel) ? maxLabelWidth(panel.columns.labels) : LINE);
  const top = Math.max(...panels.map(needs)) + (panels.some((panel) => panel.label) ? 26 : 8);
  for (const panel of panels) {
    const {above, left, right, cells, scale} = panel.box, [rows, columns] = panel.shape;
    const [width, height] = [columns * panel.width, rows * panel.height];
    Object.assign(cells.style, {width: `${width}px`, height: `${height}px`});
    Object.assign(above.style, {width: `${width}px`, height: `${top}px`});
    Object.assign(left.style, {width: `${gutter(panel)}px`, height: `${height}px`});
    Object.assign(right.style, {width: panel.sums ? "60px" : "0", height: `${height}px`});
    scale.style.width = `${Math.max(96, Math.min(width, 200))}px`;
    addLabels(panel);
  }
}

/** Choose the labels that fit: all labels, or every n-th label. */
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

function addLabels(panel) {
  const {above, left, right} = panel.box, {rows, columns, sums} = panel;
  for (const side of [above, left, right]) side.replaceChildren();
  if (panel.isLabelled) {
    for (const at of shownLabels(rows, panel.height, LINE)) rowLabel(panel, at);
  }
  const needed = isUpright(panel) ? LINE : Math.max(panel.width, maxLabelWidth(columns.labels) + 8);
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
  const made = add(panel.box.left, "span", "label", page.labels[panel.rows.labels][at]);
  const cell = Math.floor((at - panel.rows.start) / panel.rows.block);
  made.style.top = `${(cell + 0.5) * panel.height}px`;
  made.dataset.at = (cell + 0.5) * panel.height;
  return made;
}

function columnLabel(panel, at) {
  const made = add(panel.box.above, "span", "label", page.labels[panel.columns.labels][at]);
  const cell = Math.floor((at - panel.columns.start) / panel.columns.block);
  const isTurned = isUpright(panel), centre = (cell + 0.5) * panel.width;
  if (isTurned) made.classList.add("upright");
  made.style.left = `${isTurned ? centre + LINE / 2 : centre}px`;
  made.dataset.at = centre;
  return made;
}
