"use strict";
// Lets a Web Worker answer what app.js asks, and keeps running games in this browser.
{
  const KEPT = 50; // games
  const worker = new Worker("worker.js", { type: "module" });
  const waiting = new Map();
  const told = document.createElement("p");
  told.setAttribute("role", "status");
  told.textContent = "Loading Python and the games, 7 MB the first time ...";
  document.querySelector("main").prepend(told);
  let count = 0;

  const games = () => {
    try { return JSON.parse(localStorage.getItem("arena-games")) || {}; } catch { return {}; }
  };

  /** The newest games come last. */
  const keep = (table, saved) => {
    const { [table]: _, ...others } = games();
    const kept = [...Object.entries(others), [table, saved]].slice(-KEPT);
    try { localStorage.setItem("arena-games", JSON.stringify(Object.fromEntries(kept))); } catch { /* full or forbidden */ }
  };

  worker.onmessage = ({ data: { id, found } }) => {
    told.remove();
    if (found[1].saved) keep(found[1].table, found[1].saved);
    waiting.get(id)(found);
    waiting.delete(id);
  };
  worker.onerror = (error) => {
    told.remove();
    for (const give of waiting.values()) give([500, { error: `This browser cannot run the page: ${error.message}` }]);
    waiting.clear();
  };

  self.here = (path, body = {}) => new Promise((give) => {
    const table = (path.match(/^\/api\/tables\/([^/?]+)/) || [])[1];
    const saved = table && games()[decodeURIComponent(table)];
    waiting.set(++count, give);
    worker.postMessage({ id: count, path, body: saved ? { ...body, saved } : body });
  });
}
