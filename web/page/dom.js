// Small helpers for elements.

export const byId = (id) => document.getElementById(id);

// An element with attributes and children; texts are texts, whatever they contain.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null && child !== false));
  return made;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// A number of bytes in three significant digits, as the program shows it.
export function size(bytes) {
  let unit = 0;
  let value = bytes;
  while (Math.round(value) >= 1024 && unit < UNITS.length - 1) (value /= 1024), unit++;
  if (unit === 0) return `${bytes} B`;
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

const WHOLE = new Intl.NumberFormat("en");

export const whole = (number) => WHOLE.format(number);

export const count = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;

// A text of several items, as a person types it.
export const listed = (text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter(Boolean);

// Options, `key=value` each, as a person types them: a comma within a value stays.
export const options = (text) =>
  text
    .split(/,(?=\s*[\w-]+=)/)
    .map((item) => item.trim())
    .filter(Boolean);

// What an error says: the message, its kind, and a line for each fact.
export function problem(error, ...more) {
  const facts = (error.facts ?? []).flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)]);
  return el(
    "div",
    { class: "problem", role: "alert" },
    el("p", { class: "message" }, el("strong", {}, sentence(error.message)), " ", el("span", { class: "badge fail" }, error.shown ?? "error")),
    facts.length > 0 && el("dl", {}, ...facts),
    ...more,
  );
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A bar that shows how far something is, with a button that ends it.
export function meter(label, total, onCancel) {
  const bar = el("progress", { "aria-label": label, ...(total > 0 ? { max: total, value: 0 } : {}) });
  const said = el("span", { class: "said" }, label);
  const row = el("div", { class: "meter" }, said, bar, onCancel && el("button", { type: "button", onclick: onCancel }, "Cancel"));
  let done = 0;
  return {
    row,
    say(text) {
      said.textContent = text;
      bar.setAttribute("aria-label", text);
    },
    advance(bytes) {
      done = Math.min(total, done + bytes);
      if (total > 0) bar.value = done;
    },
    restart(text, amount) {
      done = 0;
      total = amount;
      this.say(text);
      if (amount > 0) (bar.max = amount), (bar.value = 0);
      else bar.removeAttribute("value");
    },
  };
}

// Shows a page of ckpt's in the frame of this id: in a new frame, because Chromium does not lay out a document that came into
// a hidden one. Without a page, the frame is hidden.
export function show(id, html) {
  const old = byId(id);
  const fresh = old.cloneNode();
  fresh.hidden = !html;
  if (html) fresh.srcdoc = html;
  else fresh.removeAttribute("srcdoc");
  old.replaceWith(fresh);
}
