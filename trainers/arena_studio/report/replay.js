// Shows the episodes of a page. All that players wrote is set as text, never as HTML; the
// pictures are our own SVG, in which Python has escaped every text.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const MAX_ROWS = 1000, MAX_TURNS = 40, MAX_WORDS = 60, MAX_STRIPES = 200, SVG = "http://www.w3.org/2000/svg";
  const figures = [], parsed = new Map();
  let data, episode, cells, lit, number = -1, turn = 0, shown = [], asked = false;

  const make = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const plain = (value) => String(Number(value.toPrecision(4)));
  const signed = (value) => (value > 0 ? "+" : "") + plain(value);
  const player = (seat) => "player_" + seat;
  const fill = (select, options) => {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  };

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  // The list

  const invalids = (e) => e.turns.filter((t) => t.invalid).length;
  const regret = (e) => e.turns.reduce((sum, t) => sum + (t.moves?.regret || 0), 0);
  const ORDERS = [
    ["file", "as in the file", (a, b) => a.number - b.number],
    ["best", "highest return first", (a, b) => (b.returns[0] ?? -1e300) - (a.returns[0] ?? -1e300)],
    ["worst", "lowest return first", (a, b) => (a.returns[0] ?? 1e300) - (b.returns[0] ?? 1e300)],
    ["long", "most turns first", (a, b) => b.turns.length - a.turns.length],
    ["invalid", "most invalid replies first", (a, b) => invalids(b) - invalids(a)],
    ["regret", "largest sum of regrets first", (a, b) => regret(b) - regret(a)],
  ];

  const hasSources = () => data.episodes.some((e) => e.source);

  function prepareFilters() {
    const form = $("filters").elements;
    const distinct = (values) => [...new Set(values)].sort().map((v) => ["=" + v, v]);
    const all = data.episodes;
    const any = [["", "all"]];
    fill(form.source, any.concat([...new Set(all.map((e) => e.source))].map((v) => ["=" + v, v])));
    form.source.parentElement.hidden = !hasSources();
    fill(form.game, any.concat(distinct(all.map((e) => e.game))));
    fill(form.outcome, any.concat(distinct(all.map((e) => e.outcome))));
    fill(form.policy, any.concat(distinct(all.flatMap((e) => e.policies.filter(Boolean)))));
    const reasons = all.flatMap((e) => e.turns.map((t) => t.invalid).filter(Boolean));
    fill(form.invalid, any.concat([["some", "some"], ["none", "none"]], distinct(reasons)));
    fill(form.order, ORDERS.map(([value, text]) => [value, text]));
    $("filters").addEventListener("input", list);
    $("filters").addEventListener("submit", (event) => event.preventDefault());
  }

  function matches(e, form) {
    const wanted = (name, values) => !form[name].value || values.includes(form[name].value.slice(1));
    if (!wanted("source", [e.source]) || !wanted("game", [e.game])) return false;
    if (!wanted("outcome", [e.outcome]) || !wanted("policy", e.policies)) return false;
    const want = form.invalid.value;
    if (want === "some" || want === "none") return (invalids(e) > 0) === (want === "some");
    return wanted("invalid", e.turns.map((t) => t.invalid));
  }

  function list() {
    const form = $("filters").elements;
    const order = ORDERS.find(([value]) => value === form.order.value)[2];
    shown = data.episodes.filter((e) => matches(e, form)).sort(order);
    const rows = shown.slice(0, MAX_ROWS).map((e) => {
      const row = make("tr");
      const button = make("button", String(e.line));
      button.type = "button";
      const first = make("td");
      first.append(button);
      const texts = [
        e.game, `${e.seed}.${e.sample}`, e.policies.join(", "), e.turns.length,
        invalids(e) || "", e.returns.map(signed).join(", "),
        e.outcome + (e.fault ? " (no replay)" : ""),
      ];
      if (hasSources()) texts.unshift(e.source);
      row.append(first, ...texts.map((text) => make("td", String(text))));
      row.dataset.number = e.number;
      return row;
    });
    $("episodes").tBodies[0].replaceChildren(...rows);
    const more = shown.length > MAX_ROWS ? `, the first ${MAX_ROWS} are listed` : "";
    $("count").value = `${shown.length} of ${data.episodes.length}${more}`;
    markRow();
  }

  function markRow() {
    for (const row of $("episodes").tBodies[0].rows) {
      row.classList.toggle("open", Number(row.dataset.number) === number);
    }
  }

  // An episode

  function open(which, place) {
    const e = data.episodes[which];
    if (!e) return;
    episode = e;
    number = which;
    $("replay").hidden = false;
    Object.assign($("replay").dataset, { source: e.source, line: e.line });
    $("name").textContent = `${e.source ? e.source + ", line" : "Line"} ${e.line}: ${e.game}, seed ${e.seed}, sample ${e.sample}`;
    $("fault").hidden = !e.fault;
    $("fault").textContent = `This episode cannot be replayed, so its prompts are shown: ${e.fault}`;
    const params = Object.entries(e.params).map(([k, v]) => `${k}=${JSON.stringify(v)}`);
    const measures = Object.entries(e.measures).map(([k, v]) => `${k} ${plain(v)}`);
    const ends = e.returns.map((r, seat) => `${player(seat)} (${e.policies[seat]}) ${signed(r)}`);
    const parts = [`Returns: ${ends.join(", ")}`, e.outcome];
    if (measures.length) parts.push(`measures: ${measures.join(", ")}`);
    if (e.parent !== null) parts.push(`branches from line ${e.parent + 1} before turn ${e.branch}`);
    if (params.length) parts.push(`parameters: ${params.join(", ")}`);
    $("facts").textContent = parts.join("; ") + ".";
    $("slider").max = e.frames.length - 1;
    const kept = $("viewer").value;
    const both = e.viewers.length > 1 ? [["both", "the seat to move, and all"]] : [];
    fill($("viewer"), both.concat(e.viewers.map((name) => [name, name])));
    if ([...$("viewer").options].some((o) => o.value === kept)) $("viewer").value = kept;
    measure();
    fillEstimators();
    buildStrip();
    buildGroup();
    markRow();
    go(place || 0);
  }

  function measure() { // the largest picture, so that the page stands still
    const pictures = [...new Set(episode.frames.flat())].map((p) => data.pictures[p]);
    episode.size = [0, 1].map((i) => pictures.reduce((most, p) => Math.max(most, p[i]), 1));
  }

  function fillEstimators() {
    const names = Object.keys(episode.estimates), kept = $("estimator").value;
    $("estimator").parentElement.hidden = !names.length;
    fill($("estimator"), [["", "as trained"], ...names.map((name) => [name, name])]);
    if (names.includes(kept)) $("estimator").value = kept;
  }

  // The advantages of an episode's turns by the chosen estimator; null for turns without
  function advantages(e) {
    const name = $("estimator").value;
    if (!name) return e.turns.map((t) => (t.credit ? t.credit.advantage : null));
    const found = e.estimates[name];
    return e.turns.map((t, place) => (Array.isArray(found) ? found[place] : null));
  }
  const largest = (values) => values.reduce((max, a) => Math.max(max, Math.abs(a)), 0);
  const finest = (e) => { // per token where training credited tokens, and it is shown
    const byToken = $("estimator").value ? [] : e.turns.flatMap((t) => t.credit?.tokens || []);
    return byToken.concat(advantages(e));
  };

  function buildStrip() {
    const seats = Math.max(episode.returns.length, ...episode.turns.map((t) => t.seat + 1));
    const chosen = advantages(episode), most = largest(finest(episode));
    cells = [];
    const rows = [...Array(seats).keys()].map((seat) => {
      const row = make("div", undefined, "seat");
      row.append(make("span", player(seat), "who"));
      episode.turns.forEach((t, place) => {
        const cell = make("span", undefined, "cell");
        if (t.seat === seat) {
          cell.classList.add("own");
          cell.classList.toggle("bad", Boolean(t.invalid));
          cell.dataset.turn = place;
          let title = `turn ${place}, ${player(seat)}`;
          if (movesOf(t)?.regret > 0) title += `, regret ${plain(t.moves.regret)}`;
          if (chosen[place] !== null) {
            cell.style.background = background(t, chosen[place], most);
            title += `: advantage ${signed(chosen[place])}`;
          }
          cell.classList.toggle("regret", Boolean(movesOf(t)?.large));
          cell.title = t.invalid ? `${title}; invalid: ${t.invalid}` : title;
          cells[place] = cell;
        }
        row.append(cell);
      });
      return row;
    });
    $("strip").replaceChildren(...rows);
    const hasLarge = episode.turns.some((t) => movesOf(t)?.large);
    const marks = hasLarge ? " Red line: regret of at least 5 % of the game's range of returns." : "";
    $("legend").textContent = `${legend(chosen, most)} Dashed: invalid reply.${marks}`;
    $("regrets").hidden = !hasLarge;
  }

  function legend(chosen, most) {
    const name = $("estimator").value;
    if (name && typeof episode.estimates[name] === "string") return `No advantages by ${name}: ${episode.estimates[name]}.`;
    if (chosen.every((a) => a === null)) return "The record has no advantages.";
    const trained = [...new Set(episode.turns.filter((t) => t.credit).map((t) => t.credit.estimator))].join(", ");
    const by = name ? `${name} with its default options, from the episodes of this page` : `${trained}, as trained`;
    const of = !name && episode.turns.some((t) => t.credit?.tokens) ? "Advantages of each turn, a stripe for each token," : "Advantage of each turn";
    return `${of} by ${by}: blue above 0, orange below 0, full color at ${signed(most)}.`;
  }

  // The color of a turn, or a stripe for each of its tokens where training credited tokens
  function background(t, advantage, most, share = 1) {
    const tokens = $("estimator").value ? null : t.credit?.tokens;
    if (!tokens || !tokens.length) return shade(share * advantage, most);
    const stripes = tokens.slice(0, MAX_STRIPES).map((a, i, all) => `${shade(share * a, most)} ${100 * i / all.length}% ${100 * (i + 1) / all.length}%`);
    return `linear-gradient(to right, ${stripes.join(", ")})`;
  }

  // The other episodes of the same start, a row each
  const isMember = (e) => ["moment", "game", "seed"].every((k) => e[k] === episode[k])
    && JSON.stringify(e.params) === JSON.stringify(episode.params);

  function buildGroup() {
    const members = data.episodes.filter(isMember);
    $("group").hidden = members.length < 2;
    if (members.length < 2) return;
    const most = largest(members.flatMap(finest));
    $("group").firstElementChild.textContent = `The group: ${members.length} episodes from this start, with the reply and advantage of each turn`;
    const rows = members.map((e) => {
      const row = make("tr", undefined, e === episode ? "open" : ""), chosen = advantages(e);
      row.append(make("td", `${e.source === e.moment ? "" : e.source + ", "}line ${e.line}`), make("td", e.returns.map(signed).join(", ")));
      e.turns.slice(0, MAX_TURNS).forEach((t, place) => row.append(memberTurn(e, place, chosen[place], most)));
      if (e.turns.length > MAX_TURNS) row.append(make("td", "..."));
      return row;
    });
    $("group").querySelector("tbody").replaceChildren(...rows);
  }

  function memberTurn(e, place, advantage, most) {
    const t = e.turns[place];
    const said = (t.parsed ? t.reply.slice(...t.parsed) : t.reply).slice(0, MAX_WORDS).trim();
    const cell = make("td", `${t.seat}: ${hidden(t.seat) ? "hidden" : said}`, t.invalid ? "turn bad" : "turn");
    cell.dataset.member = e.number;
    cell.dataset.turn = place;
    cell.title = `turn ${place}, ${player(t.seat)} (${t.policy})`;
    if (advantage !== null) {
      cell.style.background = background(t, advantage, most, 0.6);
      cell.title += `: advantage ${signed(advantage)}`;
    }
    return cell;
  }

  function shade(advantage, most) {
    const share = most > 0 ? Math.abs(advantage) / most : 0;
    return `rgba(var(--${advantage < 0 ? "minus" : "plus"}), ${(0.08 + 0.92 * share).toFixed(3)})`;
  }

  // A turn

  function go(place) {
    turn = Math.max(0, Math.min(episode.frames.length - 1, place));
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }

  function draw() {
    const now = episode.turns[turn];
    $("slider").value = turn;
    const last = episode.frames.length - 1;
    $("place").value = now ? `turn ${turn} of ${last}` : `end, ${last} turns`;
    lit?.classList.remove("now");
    lit = cells[turn];
    lit?.classList.add("now");
    document.querySelector("#group .now")?.classList.remove("now");
    document.querySelector(`#group [data-member="${number}"][data-turn="${turn}"]`)?.classList.add("now");
    drawScenes(now);
    $("turn").replaceChildren(...(now ? turnParts(now) : endParts()));
    $("replay").dataset.turn = turn;
  }

  function drawScenes(now) {
    const views = episode.frames[turn];
    let wanted = [[$("viewer").value, views[episode.viewers.indexOf($("viewer").value)]]];
    if ($("viewer").value === "both") {
      wanted = [["all", views[0]]];
      const seat = now ? now.seat : -1;
      if (now && views[seat + 1] !== views[0]) {
        wanted = [[`what ${player(seat)} could see`, views[seat + 1]], ["everything, hidden parts too", views[0]]];
      }
    }
    wanted.forEach(([name, picture], place) => drawFigure(place, name, data.pictures[picture][2]));
    while (figures.length > wanted.length) figures.pop().node.remove();
  }

  // Pictures of neighbouring turns share most elements, so only those that differ are replaced.
  function drawFigure(place, name, wanted) {
    if (!figures[place]) {
      const figure = { node: make("figure"), caption: make("figcaption"), ids: [], size: null };
      figure.svg = document.createElementNS(SVG, "svg");
      figure.svg.setAttribute("role", "img");
      figure.node.append(figure.caption, figure.svg);
      $("scenes").append(figure.node);
      figures[place] = figure;
    }
    const { svg, caption, ids } = figures[place];
    if (caption.textContent !== name) {
      caption.textContent = name;
      svg.setAttribute("aria-label", name);
    }
    if (figures[place].size !== episode.size) {
      const [width, height] = figures[place].size = episode.size;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.style.maxWidth = `${width}px`;
      figures[place].node.style.maxWidth = `${width + 2}px`;
    }
    wanted.forEach((id, i) => {
      if (i >= ids.length) svg.append(element(id));
      else if (ids[i] !== id) svg.children[i].replaceWith(element(id));
    });
    while (svg.children.length > wanted.length) svg.lastChild.remove();
    figures[place].ids = wanted;
  }

  function element(id) {
    if (!parsed.has(id)) {
      const holder = document.createElementNS(SVG, "g");
      holder.innerHTML = data.elements[id];
      parsed.set(id, holder.firstChild);
    }
    return parsed.get(id).cloneNode(true);
  }

  // Whether the chosen view is that of another seat, which may not see this one's words
  function hidden(seat) {
    const viewer = $("viewer").value;
    return viewer.startsWith("player_") && viewer !== player(seat);
  }

  const movesOf = (t) => (hidden(t.seat) ? null : t.moves);

  function turnParts(t) {
    const name = make("h3", `${player(t.seat)} (${t.policy}), its turn ${t.index}`);
    if (hidden(t.seat)) return [name, make("p", `Prompt and reply: hidden from ${$("viewer").value}`), ...rewardParts(t)];
    return [name, ...replyParts(t), ...moveParts(t), ...rewardParts(t), ...promptParts(t)];
  }

  function replyParts(t) {
    const parts = [];
    t.generations.forEach(([role, text, parent], i) => {
      const after = parent < 0 ? "" : `, after call ${parent + 1}`;
      const earned = [t.credit?.calls?.[i] ?? []].flat(); // one number, or one for each token
      const sum = earned.reduce((all, a) => all + a, 0);
      const credit = earned.length ? `, advantage ${signed(sum / earned.length)}` : "";
      parts.push(make("h3", `Call ${i + 1}: ${role}${after}${credit}`), make("pre", text));
    });
    const reply = make("pre");
    const [start, end] = t.parsed || [0, 0];
    reply.append(t.reply.slice(0, start), ...(t.parsed ? [make("mark", t.reply.slice(start, end))] : []), t.reply.slice(end));
    parts.push(make("h3", t.parsed ? "Reply, with the part that was read" : "Reply"), reply);
    if (t.invalid) parts.push(make("p", `Invalid (${t.invalid}): ${t.detail || ""}`, "warning"));
    if (t.cut) parts.push(make("p", "The reply was cut at the limit of its length."));
    return parts;
  }

  // The value of each legal action, largest first; the one that was played is marked.
  function moveParts(t) {
    const { reference, fault } = episode.solver, moves = t.moves;
    if (!moves) return [make("p", `No values of moves: ${fault}.`, "hint")];
    const all = episode.turns.flatMap((one) => one.moves?.values || []);
    const low = Math.min(...all), span = Math.max(...all) - low;
    const table = make("div", undefined, "moves");
    const order = moves.values.map((value, i) => i).sort((i, j) => moves.values[j] - moves.values[i]);
    order.forEach((i) => {
      const name = make("span", data.texts[moves.actions[i]], i === moves.played ? "played" : "");
      const bar = make("span", undefined, "bar"), length = make("span");
      length.style.width = `${span > 0 ? 100 * (moves.values[i] - low) / span : 100}%`;
      bar.append(length);
      table.append(name, bar, make("span", signed(moves.values[i]), "value"));
    });
    let said = "no action was played";
    if (moves.regret !== null) said = `regret of the one played ${plain(moves.regret)}`;
    else if (moves.played !== null) said = "the one played was drawn for the invalid reply";
    const head = make("h3", `Value of each move for ${player(t.seat)}: ${said}`, moves.large ? "regret" : "");
    return [head, table, make("p", `Expected returns if ${reference}.`, "hint")];
  }

  function promptParts(t) {
    const parts = [make("h3", "Prompt"), make("p", `Legal actions: ${data.texts[t.legal]}`)];
    t.messages.forEach(([role, text], place) => {
      const details = make("details");
      details.open = place === t.messages.length - 1;
      details.append(make("summary", role), make("pre", data.texts[text]));
      parts.push(details);
    });
    return parts;
  }

  function rewardParts(t) {
    const { rewards: paid = {}, unpaid: withheld = {} } = t.credit ?? {};
    const unpaid = Object.entries(withheld).map(([name, value]) => `${name} ${signed(value)}`);
    const rewards = Object.entries(Object.keys(paid).length || unpaid.length ? paid : t.rewards);
    const sum = rewards.reduce((total, [, value]) => total + value, 0);
    const named = rewards.map(([name, value]) => `${name} ${signed(value)}`).join(", ");
    const parts = [make("p", `Reward ${signed(sum)}${rewards.length > 1 ? ` (${named})` : ""}${unpaid.length ? `; not paid: ${unpaid.join(", ")}` : ""}`)];
    if (t.credit) parts.push(...creditParts(t.credit));
    const others = Object.entries(episode.estimates).filter(([, found]) => Array.isArray(found) && found[turn] !== null);
    if (others.length) {
      const values = others.map(([name, found]) => `${name} ${signed(found[turn])}`).join(", ");
      parts.push(make("p", `By estimators with default options, from the episodes of this page: ${values}`, "estimates"));
    }
    return parts;
  }

  function creditParts(credit) {
    const pool = Object.entries(credit.pool).map(([name, value]) => `${name} ${value}`).join(", ");
    let text = `Advantage ${signed(credit.advantage)} by ${credit.estimator}, weight ${plain(credit.weight)}; pool: ${pool || "all"}`;
    if (credit.pool_size !== null) text += ` (${credit.pool_size} values, mean ${signed(credit.pool_mean)}, std ${plain(credit.pool_std)})`;
    const parts = [make("p", text)];
    if (credit.tokens) {
      const most = credit.tokens.reduce((max, a) => Math.max(max, Math.abs(a)), 0);
      const row = make("div", undefined, "tokens");
      row.append(...credit.tokens.map((advantage, place) => {
        const cell = make("span");
        cell.style.background = shade(advantage, most);
        cell.title = `token ${place}: ${signed(advantage)}`;
        return cell;
      }));
      parts.push(make("p", "By token of the reply (the advantage above is the mean):"), row);
    }
    return parts;
  }

  function endParts() {
    return [make("h3", "The end"), make("p", `${episode.outcome}. Returns: ${episode.returns.map((r, s) => `${player(s)} ${signed(r)}`).join(", ")}`)];
  }

  // Keys, clicks and links

  function change(what, by) {
    if (what === "turn") go(turn + by);
    else if (what === "first") go(0);
    else if (what === "last") go(episode.frames.length - 1);
    else if (what === "regret") {
      const large = [...episode.turns.keys()].filter((i) => movesOf(episode.turns[i])?.large && (i - turn) * by > 0);
      if (large.length) go(by > 0 ? large[0] : large[large.length - 1]);
    }
    else {
      const next = shown[shown.indexOf(episode) + by];
      if (next) open(next.number, 0);
    }
  }

  const KEYS = {
    ArrowLeft: ["turn", -1], ArrowRight: ["turn", 1], PageUp: ["turn", -10], PageDown: ["turn", 10],
    Home: ["first"], End: ["last"], r: ["regret", 1], R: ["regret", -1], ArrowUp: ["episode", -1], ArrowDown: ["episode", 1],
  };

  function listen() {
    document.addEventListener("keydown", (event) => {
      const key = KEYS[event.key];
      const typed = event.target.closest("select, input:not(#slider), pre");
      if (!key || !episode || typed || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      change(...key);
    });
    $("replay").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) change(button.dataset.go, Number(button.dataset.by));
      const { member, turn: place } = event.target.dataset;
      if (member && Number(member) !== number) open(Number(member), Number(place));
      else if (place) go(Number(place));
    });
    $("slider").addEventListener("input", () => go(Number($("slider").value)));
    for (const id of ["viewer", "estimator"]) {
      $(id).addEventListener("input", () => { buildStrip(); buildGroup(); draw(); });
    }
    $("episodes").addEventListener("click", (event) => {
      const row = event.target.closest("tbody tr");
      if (row) { open(Number(row.dataset.number), 0); $("name").focus(); $("replay").scrollIntoView(); }
    });
    window.addEventListener("hashchange", follow);
    document.addEventListener("click", (event) => { // a link that was followed before
      if (event.target.closest("a")?.getAttribute("href") === location.hash) follow();
    });
  }

  function follow() { // a link such as #line=3&turn=5, or #from=step+40 in a report
    const link = new URLSearchParams(location.hash.slice(1));
    const source = link.get("from"), line = Number(link.get("line"));
    if (source === null && !line) return false;
    const found = data.episodes.find((e) => (source ?? e.source) === e.source && (!line || e.line === line));
    if (!found) return false;
    if (source !== null) {
      $("filters").reset();
      $("filters").elements.source.value = "=" + source;
      list();
    }
    open(found.number, Number(link.get("turn")) || 0);
    $("list").scrollIntoView();
    return true;
  }

  async function start() {
    data = await unpack($("data").textContent);
    data.episodes.forEach((e, place) => { e.number = place; });
    const names = ["line", "game", "seed.sample", "policies", "turns", "invalid", "returns", "outcome"];
    if (hasSources()) names.splice(1, 0, "from");
    const head = make("tr");
    head.append(...names.map((name) => make("th", name)));
    $("episodes").tHead.append(head);
    prepareFilters();
    listen();
    list();
    if (!follow() && shown.length) open(shown[0].number, 0);
    document.body.dataset.ready = "yes";
  }

  start().catch((error) => {
    $("problem").hidden = false;
    $("problem").textContent = `The page cannot show its episodes: ${error}`;
    throw error;
  });
})();
