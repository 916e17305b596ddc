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
  // A drawing of a part is searched by the eye.
  if (!graph.id) bar.append(field, status);
  bar.append(buttons);
  graph.before(bar);
  // Also in the drawings of what opens, which are in the same view.
  const boxes = [...(graph.closest("details") ?? graph).querySelectorAll(".box")];
  const texts = boxes.map((box) => box.querySelector("title").textContent.toLowerCase());
  let [found, current, visited] = [[], 0, false];
  const mark = (jump) => {
    boxes.forEach((box) => box.classList.remove("current"));
    if (!found.length) return;
    const box = found[current];
    box.classList.add("current");
    status.textContent = `${current + 1} of ${found.length}`;
    if (graph.contains(box)) {
      if (scale < 0.6) zoom(1);
      center(box);
    } else if (jump) {
      for (let part = box; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
      setTimeout(() => box.scrollIntoView({ block: "center", inline: "center" }), 50);
    } else {
      status.textContent += ", in a part: Enter leads there";
    }
  };
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    found = wanted ? boxes.filter((_, index) => texts[index].includes(wanted)) : [];
    boxes.forEach((box) => box.classList.toggle("match", found.includes(box)));
    current = 0;
    visited = false;
    status.textContent = wanted && !found.length ? "no box has it" : "";
    mark();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    // The first of a part is where Enter leads first.
    const step = event.shiftKey ? found.length - 1 : graph.contains(found[current]) || visited ? 1 : 0;
    current = (current + step) % found.length;
    visited = true;
    mark(true);
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
  // As wide as the window: on a phone always, elsewhere if it stays readable; the main path in the middle otherwise.
  const phone = matchMedia("(max-width: 40rem)");
  const across = () => Math.min(1, (graph.clientWidth - 2) / width);
  // A tap beside links enlarges what is there, and shows the whole width again.
  graph.addEventListener("click", (event) => {
    if (!phone.matches || moved || event.target.closest("a")) return;
    const here = graph.getBoundingClientRect();
    zoom(scale < 1 ? 1 : across(), event.clientX - here.left, event.clientY - here.top);
  });
  const start = () => {
    zoom(Math.max(across(), phone.matches ? 0 : 0.7));
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
