"use strict";
// Functions that all pages share: elements, packed data, and numbers as text.

function add(parent, name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  parent?.append(made);
  return made;
}

function bytesOf(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

/** Decompress data that is deflated and encoded as base64. */
async function inflate(text) {
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter();
  const isWritten = Promise.all([writer.write(bytesOf(text)), writer.close()]);
  const [bytes] = await Promise.all([new Response(stream.readable).arrayBuffer(), isWritten]);
  return new Uint8Array(bytes);
}

/** Join the planes of bytes of numbers, and return the buffer of the numbers. */
function joinPlanes(planes, size) {
  const count = planes.length / size, joined = new Uint8Array(planes.length);
  for (let plane = 0; plane < size; plane++) {
    for (let at = 0; at < count; at++) joined[at * size + plane] = planes[plane * count + at];
  }
  return joined.buffer;
}

/** Format a number as in the program, which, unlike toFixed, rounds ties to even digits. */
function formatNumber(value, decimals = 4) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const isPlain = size === 0 || (size >= 0.5 * Number(`1e-${decimals}`) && size < 1e5);
  const text = isPlain ? groupThousands(roundHalfEven(size, decimals)) : formatExponent(size);
  return value < 0 && /[^0.]/.test(text) ? `−${text}` : text;
}

/** Insert a thousands separator; the number has at most five digits before the decimal point. */
function groupThousands(text) {
  return text.replace(/^(\d+)(\d{3})(?=\.|$)/, "$1,$2");
}

function roundHalfEven(size, decimals) {
  const halves = size * 2 ** (decimals + 1), times = Number(`1e${decimals}`);
  if (halves % 2 !== 1) return size.toFixed(decimals);
  const below = Math.floor(size * times);
  return ((below + below % 2) / times).toFixed(decimals);
}

function formatExponent(size) {
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
