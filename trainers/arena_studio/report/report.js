// What a report adds to the replays: legends that single out curves, and a page that reloads
// itself while its run goes on.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // A click on names of a legend shows these curves, and dims the others of the chart
  $("charts")?.addEventListener("click", (event) => {
    const button = event.target.closest(".key button");
    if (!button) return;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    const chart = button.closest("figure");
    const chosen = [...chart.querySelectorAll("[aria-pressed=true]")].map((b) => b.dataset.key);
    for (const part of chart.querySelectorAll("[data-curve]")) {
      part.classList.toggle("dim", chosen.length > 0 && !chosen.includes(part.dataset.curve));
    }
  });

  const nameOf = (button) =>
    `${button.closest("figure").firstElementChild.textContent}: ${button.textContent.trim()}`;

  // The place of the reader outlives a reload in the history's state
  const FIELDS = "#filters select, #viewer, #estimator";

  const SECTIONS = ["results", "curves", "list", "replay"];
  const topOf = (id) => $(id).getBoundingClientRect().top;

  // The last section that begins above the middle of the screen, as those before it may grow
  function anchor() {
    const above = (name) => !$(name).hidden && topOf(name) < window.innerHeight / 2;
    const id = SECTIONS.filter(above).pop() ?? SECTIONS[0];
    return { id, top: topOf(id) };
  }

  // What can be unfolded, by name; the prompts of a turn are drawn anew
  function foldings() {
    const all = [...document.querySelectorAll("details")].filter((d) => !d.closest("#turn"));
    const name = (d) => d.id || `${d.parentElement.firstElementChild.textContent}: ${d.firstElementChild.textContent}`;
    return all.map((d) => [name(d), d]);
  }

  function keepPlace() {
    const { source, line, turn } = $("replay").dataset;
    const fields = [...document.querySelectorAll(FIELDS)].map((field) => field.value);
    const opened = Object.fromEntries(foldings().map(([name, details]) => [name, details.open]));
    const singled = [...document.querySelectorAll(".key [aria-pressed=true]")].map(nameOf);
    const link = line ? "#" + new URLSearchParams({ from: source, line, turn }) : location.hash;
    history.replaceState({ fields, opened, singled, at: anchor() }, "", link);
  }

  function restorePlace({ fields, opened, singled, at }) {
    for (const [name, details] of foldings()) details.open = opened[name] ?? details.open;
    for (const button of document.querySelectorAll(".key button")) {
      if (singled.includes(nameOf(button))) button.click();
    }
    document.querySelectorAll(FIELDS).forEach((field, place) => {
      if (![...field.options].some((option) => option.value === fields[place])) return;
      field.value = fields[place];
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    const scroll = () => window.scrollBy(0, topOf(at.id) - at.top);
    requestAnimationFrame(() => requestAnimationFrame(scroll)); // after the turn is drawn
  }

  // What a served page hears: sentences on the run, and that its files have changed
  function listen() {
    const source = new EventSource($("status").dataset.events);
    const add = (tag, text) => {
      const node = document.createElement(tag);
      node.textContent = text;
      return node;
    };
    source.addEventListener("status", (event) => {
      const status = JSON.parse(event.data);
      $("status").replaceChildren(...status.flatMap(([heading, lines]) =>
        [add("h3", heading), ...lines.map((line) => add("p", line))]));
      $("written").textContent = "";
    });
    source.addEventListener("changed", () => {
      source.close();
      const grow = () => {
        if (document.hidden || !$("reloads").checked) return void setTimeout(grow, 1000);
        keepPlace();
        location.reload();
      };
      grow();
    });
    source.onerror = () => { $("written").textContent = "arena watch does not answer; the page stays as it is."; };
  }

  function live() {
    if (!$("status")) $("written").textContent = document.lastModified;
    history.scrollRestoration = "manual";
    const state = history.state;
    if (state?.fields) restorePlace(state);
    $("reloads").checked = !state?.paused;
    $("reloads").addEventListener("input", () => {
      history.replaceState({ ...history.state, paused: !$("reloads").checked }, "");
    });
    if ($("status")) return void listen();
    setInterval(() => {
      if (document.hidden || !$("reloads").checked) return;
      keepPlace();
      location.reload();
    }, 1000 * Number($("live").dataset.seconds));
  }

  new MutationObserver((_, observer) => { // the episodes are shown
    observer.disconnect();
    if ($("live")) live();
    else if (history.state?.fields) restorePlace(history.state); // the run has ended
  }).observe(document.body, { attributes: true, attributeFilter: ["data-ready"] });
})();
