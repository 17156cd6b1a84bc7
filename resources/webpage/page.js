// Interaction with the pointer and the keyboard, the tables, and the start of the page.

function addListeners(panel) {
  const cells = panel.box.cells;
  const at = (event) => {
    const area = cells.getBoundingClientRect(), [rows, columns] = panel.shape;
    const row = Math.floor((event.clientY - area.top) / panel.height);
    const column = Math.floor((event.clientX - area.left) / panel.width);
    const isInside = row >= 0 && row < rows && column >= 0 && column < columns;
    return isInside ? {panel, row, column} : null;
  };
  cells.addEventListener("pointermove", (event) => pointAt(at(event)));
  cells.addEventListener("pointerdown", (event) => {
    const cell = at(event), other = page.boards.find(({head}) => head === panel.head);
    if (isThumbnail(panel) && other) {
      showBoard(other);
      return;
    }
    pinned = isSameCell(cell, pinned) ? null : cell;
    pointAt(cell);
  });
  cells.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && pointAt(null));
  cells.addEventListener("focus", () => {
    if (cells.matches(":focus-visible")) moveCell(panel, 0, 0);
  });
  cells.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (STEPS[event.key]) moveCell(panel, ...STEPS[event.key]);
    else if (event.key === "Escape") pointAt((pinned = null));
    else return;
    event.preventDefault();
  });
}

function isSameCell(one, other) {
  return one?.panel === other?.panel && one?.row === other?.row && one?.column === other?.column;
}

/** Move by one displayed cell; beyond an edge, move to the adjacent head or stage. */
function moveCell(panel, down, right) {
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
  pointAt(null);
}

function pointAt(cell) {
  if (cell && isSameCell(cell, pointed)) return;
  pointed = cell;
  updateHighlights();
}

/** Return the first and the last row or column of the stage that a displayed cell represents. */
function cellRange(axis, cell) {
  const first = axis.start + cell * axis.block;
  return {first, last: Math.min(first + axis.block, axis.stop) - 1};
}

function updateHighlights() {
  const cell = pointed ?? pinned, lit = {};
  if (board.flow) {
    highlightFlow(cell);
    showTip(cell);
    return;
  }
  if (cell) {
    lit[cell.panel.role] = cellRange(cell.panel.rows, cell.row);
    const across = cellRange(cell.panel.columns, cell.column);
    if (cell.panel.columns.name === "key") lit.key = across;
    else lit.column = across;
  }
  for (const panel of panels) {
    const {figure} = panel.box;
    for (const old of figure.querySelectorAll(".lit, .band, .here")) old.remove();
    for (const old of figure.querySelectorAll(".covered")) old.classList.remove("covered");
    const isKin = cell && panel.leading === cell.panel.leading && !panel.isAlone && !cell.panel.isAlone;
    if (!cell || (!isKin && panel !== cell.panel)) continue;
    const isColumn = panel.columns.name !== "key" && panel.stage === cell.panel.stage;
    addBand(panel, lit[panel.role], true);
    addBand(panel, panel.columns.name === "key" ? lit.key : isColumn ? lit.column : null, false);
    if (panel === cell.panel) addFrame(panel, "here", cell.row, cell.column, 1, 1);
  }
  showTip(cell);
}

function addBand(panel, lit, isRow) {
  const axis = isRow ? panel.rows : panel.columns;
  if (!lit || lit.last < axis.start || lit.first >= axis.stop) return;
  const first = Math.max(0, Math.floor((lit.first - axis.start) / axis.block));
  const last = Math.floor((Math.min(lit.last, axis.stop - 1) - axis.start) / axis.block);
  const [rows, columns] = panel.shape, count = last - first + 1;
  if (isRow) addFrame(panel, "band", first, 0, count, columns);
  else addFrame(panel, "band", 0, first, rows, count);
  const at = Math.max(lit.first, axis.start);
  if (!isRow) highlightLabel(columnLabel(panel, at), isUpright(panel) ? LINE : 0);
  else if (panel.isLabelled) highlightLabel(rowLabel(panel, at), LINE);
}

/** Highlight a label, and hide the labels that it would overlap. */
function highlightLabel(made, around) {
  made.classList.add("lit");
  const near = around || made.offsetWidth / 2 + 4;
  for (const other of made.parentElement.children) {
    const distance = Math.abs(other.dataset.at - made.dataset.at);
    const isNear = distance < (around || near + other.offsetWidth / 2);
    if (other !== made && isNear) other.classList.add("covered");
  }
}

function addFrame(panel, className, row, column, rows, columns) {
  Object.assign(add(panel.box.cells, "div", className).style, {
    top: `${row * panel.height}px`, height: `${rows * panel.height}px`,
    left: `${column * panel.width}px`, width: `${columns * panel.width}px`,
  });
}

function showTip(cell) {
  tip.hidden = !cell;
  if (!cell) return;
  const {panel, row, column} = cell;
  const parts = describeCell(panel, row, column).map((part) => {
    if (typeof part === "string") return part;
    const made = add(null, "b");
    add(made, "bdi", "", part.token);
    return made;
  });
  const value = add(null, "span", "value", describeValue(panel, row, column));
  const lines = board.flow ? calculation(cell).map((line) => add(null, "span", "term", line)) : [];
  tip.replaceChildren(...parts, " ", value, ...lines);
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
    const labels = [panel.rows, panel.columns].map((axis) => page.labels[axis.labels]);
    for (let column = 0; column < columns; column++) {
      add(head, "th", "", labels[1][panel.columns.start + column]).scope = "col";
    }
    for (let row = 0; row < rows; row++) {
      const line = add(body, "tr");
      add(line, "th", "", labels[0][panel.rows.start + row]).scope = "row";
      for (let at = 0; at < columns; at++) add(line, "td", "", describeValue(panel, row, at));
    }
  }
}

/** Return whether a panel is a small copy of another head. */
function isThumbnail(panel) {
  return panels.indexOf(panel) >= panels.length - (board.flow?.thumbnails ?? 0);
}

function hasTable(panel) {
  return !isThumbnail(panel) && !panel.pooled && panel.shape[0] * panel.shape[1] <= MAX_TABLE_CELLS;
}

// -------------------------------------------------------------------------------------- page

function addTitle(panel, container) {
  const made = add(container, "div", "title");
  add(made, "h2", "", panel.title);
  for (const line of axesOf(panel)) add(made, "p", "", line);
  return made;
}

function arrange() {
  const main = document.getElementById("panels");
  if (isWrapped) addTitle(panels[0], main);
  const grid = add(main, "div", isWrapped ? "wrapped" : "grid");
  board.columns.forEach((column, across) => {
    column.forEach((panel, along) => {
      if (!isWrapped && along === 0) {
        panel.box.title = addTitle(panel, grid);
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
  if (board.flow) layOutFlow();
  else layOut();
  for (const panel of panels) {
    paint(panel);
    if (panel.box.title) panel.box.title.style.paddingLeft = `${gutter(panel)}px`;
  }
  updateHighlights();
}

/** Show another board, and forget the selected cell. */
function showBoard(chosenBoard) {
  board = chosenBoard;
  pointed = pinned = null;
  panels.splice(0, panels.length, ...board.columns.flat());
  document.getElementById("panels").replaceChildren();
  document.getElementById("said").textContent = board.said;
  for (const button of document.getElementById("heads").children) {
    button.setAttribute("aria-pressed", button.textContent === headName(board));
  }
  if (board.flow) arrangeFlow();
  else if (panels.length) arrange();
  const tables = document.getElementById("tables");
  tables.hidden = !panels.some(hasTable);
  for (const table of tables.querySelectorAll(".scroll")) table.remove();
  if (tables.open) fillTables();
  draw();
}

function headName({head}) {
  return `Head ${head + 1}`;
}

function addHeadButtons() {
  const bar = document.getElementById("heads");
  bar.hidden = false;
  for (const one of page.boards) {
    const button = add(bar, "button", "", headName(one));
    button.type = "button";
    button.addEventListener("click", () => showBoard(one));
  }
}

async function start() {
  document.querySelector("h1").textContent = page.title;
  document.getElementById("caption").textContent = page.caption;
  const packed = document.querySelectorAll("script.cells");
  let at = 0;
  for (const one of page.boards) {
    for (const panel of one.columns.flat()) {
      await unpack(panel, packed[at].textContent);
      packed[at++].remove();
      build(panel);
    }
    if (one.flow) await readPictures(one);
  }
  if (page.boards.length > 1) addHeadButtons();
  showBoard(board);
  const scheme = document.getElementById("scheme");
  scheme.hidden = document.getElementById("help").hidden = false;
  scheme.addEventListener("click", () => {
    chosen = theme().name === "dark" ? "light" : "dark";
    draw();
  });
  system.addEventListener("change", draw);
  // A frame outside the visible part of a notebook has no size yet, and gets no event "resize".
  new ResizeObserver(draw).observe(document.getElementById("panels"));
  for (const [name, isNow] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      isPrinting = isNow;
      draw();
    });
  }
  const again = () => showTip(pointed ?? pinned);
  document.addEventListener("scroll", again, {capture: true, passive: true});
  document.getElementById("tables").addEventListener("toggle", fillTables);
}

const ready = start();
