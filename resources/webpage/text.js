// Draws the heatmaps from the data in this page, and highlights the cell that the user selects with
// the pointer or the keyboard. Text is always inserted as plain text.
// This file contains values that the other files share, and texts.

const FORBIDDEN = 1, DROPPED = 2, HIDDEN = 4, UNEVEN = 8, BELOW = 16, ABOVE = 32;
const LAST_COLOUR = 252, FIRST_MARK = 254; // the last index of values, and the first of marks
const GAP = 24, LINE = 16, MAX_LABEL_WIDTH = 88, MIN_PANEL_WIDTH = 100, MIN_SIDE = 130;
const MAX_CELL_SIZE = 88, PAPER_WIDTH = 1000, MAX_TABLE_CELLS = 1000;
const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

const page = JSON.parse(document.getElementById("page").textContent);
const panels = []; // of the current board
const tip = document.getElementById("tip");
const pen = document.createElement("canvas").getContext("2d");
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = page.theme, isPrinting = false, density = 1;
let board = page.boards[0], pointed = null, pinned = null;

// --------------------------------------------------------------------------------------- text

function axisName(name) {
  return {d_head: "column", d_in: "column", d_out: "column"}[name] ?? name;
}

/** Describe the axes of a panel and, if only some tokens are displayed, their range. */
function axesOf(panel) {
  const axes = `${axisName(panel.rows.name)} ↓  ${axisName(panel.columns.name)} →`;
  const seen = [panel.rows, panel.columns].filter((axis) => axis.stop - axis.start < axis.count);
  const parts = seen.map((axis) => `${axis.start + 1}–${axis.stop}`);
  if (!seen.length) return [axes];
  const counts = seen.map((axis) => `of ${axis.count.toLocaleString("en")}`);
  if (new Set(counts).size === 1) return [axes, `${parts.join(" × ")} ${counts[0]}`];
  return [axes, parts.map((part, at) => `${part} ${counts[at]}`).join(" × ")];
}

/** Describe a cell's position on an axis as a list of parts, in which tokens are objects. */
function describePosition(axis, cell) {
  const first = axis.start + cell * axis.block, last = Math.min(first + axis.block, axis.stop) - 1;
  const labels = page.labels[axis.labels];
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

/** Return the value of a cell as text, or the reason why it has none. */
function describeValue(panel, row, column) {
  const at = row * panel.shape[1] + column, mark = panel.marks[at];
  const value = formatNumber(panel.values[at]);
  if (mark & FORBIDDEN) return value === "−∞" ? "−∞, masked" : "masked";
  if (mark & DROPPED) return "dropped";
  if (mark & HIDDEN) return "hidden";
  const pooled = panel.pooled ? `, ${panel.pooled}` : "";
  const sign = panel.isChange && panel.values[at] > 0 ? "+" : "";
  return sign + value + pooled + (mark & UNEVEN ? ", masked in one of the two" : "");
}

function describeCell(panel, row, column) {
  const stage = panel.isChange ? `, ${panel.stage}` : "";
  const whose = stage + (panel.label ? `, ${panel.label.toLowerCase()}` : "");
  return [`${panel.title}${whose}: `, ...describePosition(panel.rows, row), ", ",
    ...describePosition(panel.columns, column)];
}
