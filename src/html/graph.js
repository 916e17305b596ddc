// Drawings that can be dragged, zoomed and searched. Without scripts, they scroll.
for (const graph of document.querySelectorAll(".graph")) {
  const svg = graph.querySelector("svg");
  const [width, height] = [svg.width.baseVal.value, svg.height.baseVal.value];
  let scale = 1;
  // Keeps a point of the window in its place.
  const zoom = (to, x = graph.clientWidth / 2, y = graph.clientHeight / 2) => {
    to = Math.min(Math.max(to, 0.05), 4);
    const [left, top] = [(graph.scrollLeft + x) / scale, (graph.scrollTop + y) / scale];
    scale = to;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    graph.scrollTo(left * scale - x, top * scale - y);
  };
  const center = (box) => {
    const [here, there] = [graph.getBoundingClientRect(), box.getBoundingClientRect()];
    graph.scrollBy(
      there.left + there.width / 2 - here.left - here.width / 2,
      there.top + there.height / 2 - here.top - here.height / 2,
    );
  };
  const bar = document.createElement("p");
  bar.className = "find";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Find a layer, Enter for the next…";
  field.setAttribute("aria-label", "Find a layer in the drawing");
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  const buttons = document.createElement("span");
  buttons.className = "zoom";
  const fit = () => zoom(Math.min((graph.clientWidth - 2) / width, (graph.clientHeight - 2) / height, 1));
  for (const [sign, label, act] of [
    ["\u2212", "Zoom out", () => zoom(scale / 1.4)],
    ["+", "Zoom in", () => zoom(scale * 1.4)],
    ["1:1", "Original size", () => zoom(1)],
    ["fit", "Show all", fit],
  ]) {
    const button = document.createElement("button");
    button.textContent = sign;
    button.title = label;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", act);
    buttons.append(button);
  }
  bar.append(field, status, buttons);
  graph.before(bar);
  const boxes = [...graph.querySelectorAll(".box")];
  const texts = boxes.map((box) => box.querySelector("title").textContent.toLowerCase());
  let [found, current] = [[], 0];
  const mark = () => {
    boxes.forEach((box) => box.classList.remove("current"));
    if (!found.length) return;
    found[current].classList.add("current");
    if (scale < 0.6) zoom(1);
    center(found[current]);
    status.textContent = `${current + 1} of ${found.length}`;
  };
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    found = wanted ? boxes.filter((_, index) => texts[index].includes(wanted)) : [];
    boxes.forEach((box) => box.classList.toggle("match", found.includes(box)));
    current = 0;
    status.textContent = wanted && !found.length ? "no box has it" : "";
    mark();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    current = (current + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    mark();
  });
  graph.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const here = graph.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - here.left, event.clientY - here.top);
    },
    { passive: false },
  );
  graph.addEventListener("keydown", (event) => {
    if (event.key === "+") zoom(scale * 1.4);
    if (event.key === "-") zoom(scale / 1.4);
    if (event.key === "0") fit();
  });
  graph.classList.add("pan");
  let from = null;
  let moved = false;
  graph.addEventListener("pointerdown", (event) => {
    moved = false;
    if (event.button === 0 && event.pointerType === "mouse") from = [event.clientX + graph.scrollLeft, event.clientY + graph.scrollTop];
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x, y] = [from[0] - event.clientX, from[1] - event.clientY];
    moved ||= Math.abs(x - graph.scrollLeft) + Math.abs(y - graph.scrollTop) > 4;
    if (moved) graph.scrollTo(x, y);
  });
  addEventListener("pointerup", () => (from = null));
  graph.addEventListener("dragstart", (event) => event.preventDefault());
  // A drag is no click.
  graph.addEventListener("click", (event) => moved && event.preventDefault(), true);
  // As wide as the window, if it stays readable; the main path in the middle otherwise.
  const start = () => {
    zoom(Math.min(1, Math.max((graph.clientWidth - 2) / width, 0.7)));
    if (boxes.length) center(boxes[0]);
  };
  const view = graph.closest("details");
  if (!view || view.open) start();
  else view.addEventListener("toggle", start, { once: true });
  for (const link of document.querySelectorAll('a[href^="#box"]')) {
    link.addEventListener("click", () => {
      const box = graph.querySelector(link.getAttribute("href"));
      if (!box || !view) return;
      view.open = true;
      requestAnimationFrame(() => setTimeout(() => center(box), 50));
    });
  }
}
