// Sets the theme before the page is drawn. It is a script of its own, not a module, because modules run after the first picture.
(() => {
  "use strict";
  let chosen = null;
  try { chosen = localStorage.getItem("wsbouncer.theme"); } catch { /* no storage: the system's theme */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
