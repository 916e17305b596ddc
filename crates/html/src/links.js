// A link opens what it leads to, and what that is in.
function reveal(id) {
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", () => reveal(location.hash.slice(1)));
addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && !event.defaultPrevented && link.getAttribute("href") === location.hash) reveal(location.hash.slice(1));
});
reveal(location.hash.slice(1));
