"use strict";
// Draws the heatmaps that stand in this page as data, and lights them up under the pointer and the
// keys. Text is only ever put in as text. First what all share, and the words.

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
  const text = isPlain ? grouped(rounded(size, decimals)) : withExponent(size);
  return value < 0 && /[^0.]/.test(text) ? `−${text}` : text;
}

/** Separate thousands; no plain number has more than five digits before its decimals. */
function grouped(text) {
  return text.replace(/^(\d+)(\d{3})(?=\.|$)/, "$1,$2");
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
  const counts = seen.map((axis) => `of ${axis.count.toLocaleString("en")}`);
  if (new Set(counts).size === 1) return [axes, `${parts.join(" × ")} ${counts[0]}`];
  return [axes, parts.map((part, at) => `${part} ${counts[at]}`).join(" × ")];
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
