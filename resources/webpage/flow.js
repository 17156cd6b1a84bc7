// The flow board: an image of everything around the cells, and the inputs of the current cell.

const MIN_SCALE = 0.6, MAX_SCALE = 2, HEIGHT_OF_TEXT = 130;
const MAX_TERMS = 5, MAX_PLAIN_EXPONENT = 5; // maximum exponent, as in the window
const flowMarks = document.getElementById("marks");
let flowArea = null, flowImage = null;

/** Read the images of a board, one for each theme. */
async function readPictures(board) {
  board.pictures = {};
  for (const name of Object.keys(page.themes)) {
    const packed = document.querySelector(`.flow-${name}`);
    const svg = new Blob([await inflate(packed.textContent)], {type: "image/svg+xml"});
    board.pictures[name] = URL.createObjectURL(svg);
    packed.remove();
  }
}

function arrangeFlow() {
  flowArea = add(document.getElementById("panels"), "div", "flow");
  flowImage = add(flowArea, "img");
  flowImage.alt = "";
  for (const panel of panels) flowArea.append(panel.box.figure);
  flowArea.append(flowMarks);
  flowMarks.removeAttribute("hidden");
}

function layOutFlow() {
  const {width, height, areas} = board.flow;
  density = isPrinting ? 1 : devicePixelRatio;
  const room = isPrinting ? PAPER_WIDTH : document.getElementById("panels").clientWidth - 4;
  const across = Math.min(MAX_SCALE, Math.max(MIN_SCALE, room / width));
  const whole = (innerHeight - HEIGHT_OF_TEXT) / height; // not reduced further: the page scrolls
  const scale = isPrinting ? across : Math.max(Math.min(across, whole), Math.min(across, 1));
  const size = {width: `${width * scale}px`, height: `${height * scale}px`};
  for (const one of [flowArea, flowImage, flowMarks]) Object.assign(one.style, size);
  flowImage.src = board.pictures[theme().name];
  panels.forEach((panel, at) => {
    // In print, Chromium reduces canvases whose sides are not whole pixels.
    const round = isPrinting ? Math.round : (length) => length;
    const [left, top, across, down] = areas[at].map((length) => round(length * scale));
    const [rows, columns] = panel.shape, {figure, cells} = panel.box;
    Object.assign(panel, {left, top, width: across / columns, height: down / rows});
    Object.assign(figure.style, {left: `${left}px`, top: `${top}px`});
    Object.assign(cells.style, {width: `${across}px`, height: `${down}px`});
  });
}

// ----------------------------------------------------------------------------- inputs of a cell

function columnOf(panel) {
  return board.flow.columns.find((column) => panels[column.panel] === panel);
}

/** Return the column that multiplies the rows of a panel with another panel, such as the context. */
function columnBelow(panel) {
  return board.flow.columns.find(({row, above}) => above !== null && panels[row] === panel);
}

function highlightFlow(cell) {
  flowMarks.replaceChildren();
  if (!cell) return;
  const {panel, row, column} = cell, from = columnOf(panel);
  for (const shares of [columnBelow(panel), from]) {
    const weights = shares && panels[shares.row];
    if (shares?.kind === "product" && weights.columns.name === "key") {
      drawRibbons(shares, row, weights === panel ? column : null);
    }
  }
  outlineInputs(cell);
  outline(panel, row, column, 1, 1, "here");
}

function outlineInputs({panel, row, column}) {
  const from = columnOf(panel);
  if (!from) return;
  const left = panels[from.row], top = panels[from.above];
  if (left && left.shape[0] === panel.shape[0]) outline(left, row, 0, 1, left.shape[1]);
  if (top && top.shape[1] === panel.shape[1]) outline(top, 0, column, top.shape[0], 1);
  if (from.kind !== "softmax") return;
  outline(left, row, column, 1, 1, "here");
  outlineInputs({panel: left, row, column});
}

function outline(panel, row, column, rows, columns, className = "") {
  const made = document.createElementNS(flowMarks.namespaceURI, "rect"), {left, top, width, height} = panel;
  const place = {x: left + column * width, y: top + row * height,
    width: columns * width, height: rows * height};
  for (const [name, length] of Object.entries(place)) made.setAttribute(name, length);
  made.setAttribute("class", className);
  flowMarks.append(made);
}

/** Draw a ribbon for each weight of a row; next to the row, they are together as high as the row. */
function drawRibbons(from, row, chosen) {
  const weights = panels[from.row], values = panels[from.above], keys = weights.shape[1];
  if (values.shape[0] !== keys) return;
  const numbers = weights.values.slice(row * keys, (row + 1) * keys);
  const sum = numbers.reduce((total, one) => total + Math.max(0, one), 0);
  const start = weights.left + keys * weights.width, end = values.left, middle = (start + end) / 2;
  let upper = weights.top + row * weights.height;
  numbers.forEach((number, key) => {
    const height = Math.max(0, number) / sum * weights.height, lower = upper + height;
    const top = values.top + key * values.height, bottom = top + values.height;
    if (height > 0.4) {
      const made = document.createElementNS(flowMarks.namespaceURI, "path");
      made.setAttribute("d", `M ${start} ${upper} C ${middle} ${upper} ${middle} ${top} ${end} ${top}`
        + ` L ${end} ${bottom} C ${middle} ${bottom} ${middle} ${lower} ${start} ${lower} Z`);
      made.setAttribute("class", key === chosen ? "chosen" : "");
      flowMarks.append(made);
    }
    upper = lower;
  });
}

/** Return lines of text that show how a value is computed from the values on the page. */
function calculation({panel, row, column}) {
  const from = columnOf(panel), at = row * panel.shape[1] + column;
  if (!from || panel.marks[at] & (FORBIDDEN | DROPPED | HIDDEN)) return [];
  const left = panels[from.row];
  if (from.kind === "softmax") return softmaxLines(left, row, column);
  return from.kind === "product" ? productLines(from, row, column) : [];
}

function softmaxLines(scores, row, column) {
  const count = scores.shape[1];
  const line = Array.from(scores.values.slice(row * count, (row + 1) * count));
  const highest = Math.max(...line), shift = Math.abs(highest) > MAX_PLAIN_EXPONENT ? highest : 0;
  const powers = line.map((score) => Math.exp(score - shift));
  const sum = powers.reduce((total, one) => total + one, 0);
  const score = formatNumber(line[column]) + (shift ? ` − ${formatFactor(shift)}` : "");
  return [`exp(${score}) = ${formatNumber(powers[column])}`,
    `÷ sum of the row: ${formatNumber(powers[column])} ÷ ${formatNumber(sum)}`];
}

function productLines(from, row, column) {
  const left = panels[from.row], top = panels[from.above], [count, across] = top.shape;
  const all = Array.from({length: count}, (_, at) => {
    const one = left.values[row * count + at], other = top.values[at * across + column];
    return {one, other, at, product: one * other};
  });
  const terms = all.filter(({one}) => one !== 0); // masked keys have weight 0
  const order = [...terms].sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
  const shown = order.slice(0, MAX_TERMS).sort((a, b) => a.at - b.at);
  const lines = shown.map(({one, other, product}) =>
    `${formatNumber(one)} × ${formatFactor(other)} = ${formatNumber(product)}`);
  const rest = order.slice(MAX_TERMS), add = (total, {product}) => total + product;
  if (rest.length) lines.push(`${rest.length} more: ${formatNumber(rest.reduce(add, 0))}`);
  const sum = terms.reduce(add, 0);
  if (from.factor !== 1) lines.push(`sum ${formatNumber(sum)}, × ${formatNumber(from.factor)}`);
  if (from.bias) lines.push(`sum ${formatNumber(sum)}, bias ${formatNumber(from.bias[column])}`);
  return lines;
}

function formatFactor(value) {
  return value < 0 ? `(${formatNumber(value)})` : formatNumber(value);
}
