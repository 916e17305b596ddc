// What an opened tensor shows: its histogram, a map of its values, and the first of them.
// The namespace of SVG, which parsed markup has: the page names no address.
const NAMESPACE = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
function shape(name, attributes, text) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}
function figure(caption, ...contents) {
  const made = document.createElement("figure");
  const title = document.createElement("figcaption");
  title.textContent = caption;
  made.append(title, ...contents);
  return made;
}
function histogram(data) {
  const counts = data.counts.split(" ").map(Number);
  const most = Math.max(...counts, 1);
  const [left, top, width, height] = [48, 14, 424, 150];
  const step = width / counts.length;
  const svg = shape("svg", { class: "histogram", viewBox: "0 0 480 196", role: "img", "aria-label": "Histogram" });
  for (const part of [0, 0.5, 1]) {
    const y = top + height * (1 - part);
    svg.append(shape("line", { class: "grid", x1: left, x2: left + width, y1: y, y2: y }));
    const label = Math.round(most * part).toLocaleString("en");
    svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, label));
  }
  const [low, high] = [Number(data.low), Number(data.high)];
  const at = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  counts.forEach((count, index) => {
    const tall = (height * count) / most;
    const bar = shape("rect", { class: "bar", x: left + step * index + 1, y: top + height - tall, width: step - 2, height: tall });
    const edge = (number) => low + ((high - low) * number) / counts.length;
    bar.append(shape("title", {}, `${at(edge(index))} to ${at(edge(index + 1))}: ${count.toLocaleString("en")}`));
    svg.append(bar);
  });
  const mark = (x, text, anchor) => {
    svg.append(shape("line", { class: "grid", x1: x, x2: x, y1: top + height, y2: top + height + 5 }));
    svg.append(shape("text", { x, y: top + height + 20, "text-anchor": anchor }, text));
  };
  mark(left, data.low, "start");
  mark(left + width, data.high, "end");
  const zero = -low / (high - low);
  if (zero > 0.15 && zero < 0.85) mark(left + width * zero, "0", "middle");
  return figure("distribution of values", svg);
}
function heatMap(data) {
  const rows = Number(data.rows);
  const columns = data.map.length / rows;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Map of values");
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const [minus, none, plus] = [[178, 24, 43], [247, 247, 247], [33, 102, 172]];
  [...data.map].forEach((character, index) => {
    const level = character.charCodeAt(0) - 48;
    const part = (level - 31) / 30;
    const end = part < 0 ? minus : plus;
    const color = level === 63 ? [0, 0, 0] : none.map((from, at) => from + (end[at] - from) * Math.abs(part));
    image.data.set([...color, 255], 4 * index);
  });
  pen.putImageData(image, 0, 0);
  const legend = document.createElement("div");
  legend.className = "legend";
  const words = (text) => Object.assign(document.createElement("span"), { textContent: text });
  legend.append(words(`\u2212${data.largest}`), document.createElement("i"), words(data.largest));
  return figure(`map of values: ${data.of}`, canvas, legend);
}
function details(row) {
  const parts = document.createElement("div");
  parts.className = "parts";
  const data = row.dataset;
  if (data.counts) parts.append(histogram(data));
  if (data.map) parts.append(heatMap(data));
  if (data.first) {
    const values = document.createElement("code");
    values.textContent = data.first;
    const first = figure("first values", values);
    first.className = "first";
    parts.append(first);
  }
  const opened = document.createElement("tr");
  opened.className = "opened";
  const cell = document.createElement("td");
  cell.colSpan = row.cells.length;
  cell.append(parts);
  opened.append(cell);
  return opened;
}
function opener(table, rows) {
  for (const row of rows.filter((row) => row.dataset.first)) {
    const button = document.createElement("button");
    button.className = "open";
    button.setAttribute("aria-expanded", "false");
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
  }
  table.tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || !row.dataset.first || String(getSelection())) return;
    if (row.opened) row.opened.remove();
    row.opened = row.opened ? null : details(row);
    if (row.opened) row.after(row.opened);
    row.querySelector("button.open").setAttribute("aria-expanded", String(Boolean(row.opened)));
  });
}
