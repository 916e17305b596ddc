// Sorts tables by their headings, filters rows by a search field, shows long tables in parts, and opens a tensor on a
// click. Without scripts, rows keep the order of the file.
const PAGE = 200;
const ORDER = new Intl.Collator("en", { numeric: true });
function sorter(table, rows, show) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = ([x], [y]) => {
        const order = x === "" || y === "" || isNaN(x) || isNaN(y) ? ORDER.compare(x, y) : x - y;
        return down ? -order : order;
      };
      const keyed = rows.map((row) => [key(row), row]).sort(compare);
      rows.splice(0, rows.length, ...keyed.map(([, row]) => row));
      show();
    });
  });
}
function finder(table, rows, show) {
  const heads = [...table.tHead.rows[0].cells];
  const words = heads.flatMap((head, column) => (head.classList.contains("number") ? [] : [column]));
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, words.map((column) => row.cells[column].textContent).join("\n").toLowerCase());
    return texts.get(row);
  };
  const bar = document.createElement("p");
  bar.className = "find";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Find in the table…";
  field.setAttribute("aria-label", "Find rows");
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  bar.append(field, status);
  table.parentElement.before(bar);
  field.addEventListener("input", show);
  return {
    field,
    status,
    found: () => {
      const terms = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      return terms.length ? rows.filter((row) => terms.every((term) => text(row).includes(term))) : rows;
    },
  };
}
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const later = table.parentElement.querySelector("template");
  const rows = [...body.rows, ...(later ? later.content.querySelectorAll("tr") : [])];
  let find = null;
  let most = PAGE;
  const more = document.createElement("button");
  more.className = "more";
  const show = () => {
    const found = find ? find.found() : rows;
    const shown = find ? found.slice(0, most) : found;
    body.replaceChildren(...shown.flatMap((row) => (row.opened ? [row, row.opened] : [row])));
    more.hidden = shown.length === found.length;
    more.textContent = `Show ${Math.min(PAGE, found.length - shown.length)} more`;
    if (find) find.status.textContent = found.length ? `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : `none of ${rows.length} matches`;
  };
  if (table.classList.contains("findable")) {
    find = finder(table, rows, () => {
      most = PAGE;
      show();
    });
    more.addEventListener("click", () => {
      most += PAGE;
      show();
    });
    table.parentElement.after(more);
    for (const note of document.querySelectorAll(".scriptless")) note.remove();
    for (const link of document.querySelectorAll(`a[href="#${table.id}"][data-find]`)) {
      link.addEventListener("click", () => {
        find.field.value = link.dataset.find;
        most = PAGE;
        show();
      });
    }
    show();
  }
  sorter(table, rows, show);
  opener(table, rows);
}
