"use strict";
const at = (id) => document.getElementById(id);
const state = { games: [], offered: {}, view: null, picked: null, timer: null, replay: null, number: 0, kind: "",
  cast: null, names: new Set(), worthless: new Set(), typing: false };

/** An element with properties and children; texts never become markup. */
function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SECTIONS = ["enter", "home", "choose", "table", "replay"];
const show = (id) => {
  for (const name of SECTIONS) at(name).hidden = name !== id;
};

function problem(text) {
  at("problem").hidden = !text;
  at("problem").textContent = text || "";
}

class ServerError extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

/** The answer to a request: of the server, or of `self.here`, which the site's page defines. */
async function ask(path, body) {
  if (self.here) {
    const [status, found] = await self.here(path, body);
    if (status !== 200) throw new ServerError(status, found.error);
    return found;
  }
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try { answer = await fetch(path, options); }
  catch { throw new ServerError(0, "The server does not answer; the game is kept."); }
  const found = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new ServerError(answer.status, found.error);
  return found;
}

/** Runs work and shows its error. */
async function doing(work) {
  try { await work(); problem(""); }
  catch (error) {
    if (error instanceof ServerError && error.status === 401) show("enter");
    problem(error.message);
  }
}

/** Begins a visit where there is none; asks nothing that the server would refuse. */
async function enter(token) {
  if (state.games.length && !token) return true;
  const visit = await ask("/api/visit");
  if (token || !visit.entered) {
    if (visit.token && !token) { show("enter"); return false; }
    await ask("/api/visit", { token: token || "" });
  }
  const found = await ask("/api/games");
  state.games = found.games;
  at("missing").textContent = found.missing || "";
  return true;
}

const linked = () => new URLSearchParams(location.hash.slice(1));
const factsOf = (id) => state.games.find((game) => game.id === id);

async function route() {
  clearTimeout(state.timer);
  const link = linked();
  if (!await enter(link.get("token"))) return;
  if (link.has("token")) { location.hash = ""; return; }
  if (link.has("record")) await openReplay(unpacked(link.get("record")));
  else if (link.has("watch")) await openWatch(link.get("watch"));
  else if (link.has("table")) await openTable(link.get("table"), link.get("invite"));
  else if (link.has("game")) await choose(link.get("game"));
  else home();
}

// Names: colors and roles in place of player_0

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Who plays: the game, a name for each seat, the seat of this visitor or null. */
function cast(game, seats, mine) {
  state.cast = { facts: factsOf(game), seats, mine };
}

/** "You", or the color or role of a seat. */
const label = (seat) => (seat === state.cast.mine ? "You" : state.cast.facts.names[seat]);

/** "You, red" and "minimax, blue". */
function who(seat) {
  const { seats, mine, facts } = state.cast;
  const name = seat === mine ? "You" : seats[seat] === "person" ? "Another person" : seats[seat] || "Somebody";
  return facts.players === 1 ? name : [name, facts.colors[seat], facts.roles[seat]].filter(Boolean).join(", ");
}

/** A text of the game with names in place of player_0: "You" where it stands alone, else the color or role. */
function say(text) {
  if (!text || !state.cast) return text;
  const { mine, facts } = state.cast, known = (seat, name) => facts.names[seat] || name;
  return text.replace(/^player_(\d+)(?=$|[:;,])/, (name, seat) => (Number(seat) === mine ? "You" : known(seat, name)))
    .replace(/\bplayer_(\d+)\b/g, (name, seat) => known(seat, name))
    .replace(/\b(\w+) has \1\b(, )?/g, ""); // the name says it
}

function drawPlayers(place, mover) {
  const { facts } = state.cast;
  place.hidden = facts.players < 2;
  place.replaceChildren(...facts.names.map((_, seat) => el("li", { "aria-current": seat === mover },
    el("span", { className: `swatch t-${facts.tones[seat]}`, "aria-hidden": "true" }), who(seat),
    facts.talk ? el("small", {}, ` player_${seat}`) : null)));
}

// Home: a gallery of boards

/** Kinds of games in order; a game is of the first one that fits. */
const KINDS = [["Board games", (game) => game.information === "perfect" && game.kind === "competitive" && game.players > 1 && !game.talk],
  ["Cards and secrets", (game) => game.kind === "competitive" && game.players > 1 && !game.talk],
  ["In words", (game) => game.talk && game.players > 1], ["Together", (game) => game.kind === "cooperative" && game.players > 1],
  ["Mixed motives", (game) => game.players > 1], ["Alone", () => true]];
const kindOf = (game) => KINDS.find(([, fits]) => fits(game))[0];

const players = (game) => (game.players === 1 ? "1 player" : `${game.players} players`);
const hides = (game) => (game.information === "perfect" ? "nothing hidden" : "hidden information");
const pictureOf = (game) => `pictures/${encodeURIComponent(game.id)}.svg`;

function home() {
  document.title = "arena";
  show("home");
  at("kinds").replaceChildren(...["", ...KINDS.map(([kind]) => kind)].map((kind) => el("button",
    { type: "button", "aria-pressed": String(state.kind === kind), onclick: () => { state.kind = kind; home(); } }, kind || "All")));
  listGames();
  listRecent();
}

function listGames() {
  const wanted = at("filter").value.trim().toLowerCase();
  const fits = (game) => `${game.id} ${game.title} ${game.about} ${game.kind}`.toLowerCase().includes(wanted);
  const found = state.games.filter((game) => fits(game) && (!state.kind || kindOf(game) === state.kind));
  at("gallery").replaceChildren(...KINDS.map(([kind]) => [kind, found.filter((game) => kindOf(game) === kind)])
    .filter(([, games]) => games.length)
    .flatMap(([kind, games]) => [el("h2", {}, kind), el("ul", { className: "tiles" }, ...games.map(tile))]));
  at("none").hidden = found.length > 0;
}

const tile = (game) => el("li", {}, el("a", { className: "tile", href: `#game=${game.id}` },
  el("img", { src: pictureOf(game), alt: "", loading: "lazy", width: 240, height: 160 }),
  el("b", {}, game.title), el("span", {}, game.about), el("small", {}, `${players(game)}, ${hides(game)}`)));

function recent() {
  try {
    const games = JSON.parse(localStorage.getItem("arena-last"));
    return Array.isArray(games) ? games.filter((game) => factsOf(game.game) && Array.isArray(game.seats)) : [];
  } catch { return []; }
}

/** Remembers the last five games of this browser. */
function remember(view) {
  const others = recent().filter((game) => game.table !== view.table);
  const kept = [{ table: view.table, game: view.game, seats: view.seats, result: view.done ? outcome(view)[0] : "" }, ...others];
  try { localStorage.setItem("arena-last", JSON.stringify(kept.slice(0, 5))); } catch { /* full or forbidden */ }
}

function listRecent() {
  const games = recent();
  at("last").hidden = games.length === 0;
  at("recent").replaceChildren(...games.map((game) => {
    const others = [...new Set(game.seats.filter((name) => name !== "person"))].join(", ");
    const against = others ? ` with ${others}` : "";
    return el("li", {}, el("a", { href: `#table=${encodeURIComponent(game.table)}` },
      el("b", {}, factsOf(game.game).title), el("span", {}, against), el("small", {}, game.result || "Go on")));
  }));
}

// Choosing who plays

async function choose(id) {
  const game = factsOf(id);
  if (!game) { home(); throw new Error("No game has this name; these are all."); }
  document.title = game.title;
  show("choose");
  at("chosen").textContent = game.title;
  at("about").textContent = game.about;
  at("facts").textContent = `${players(game)}, ${game.kind}, ${hides(game)}${game.talk ? ", in words" : ""}`;
  at("picture").src = pictureOf(game);
  at("seats").replaceChildren();
  state.offered[id] ||= (await ask(`/api/games/${encodeURIComponent(id)}`)).opponents;
  if (linked().get("game") !== id) return;
  const opponents = state.offered[id], named = linked().get("against"); // of arena play --web
  const best = opponents.includes(named) ? named : opponents[Math.min(1, opponents.length - 1)];
  const people = self.here ? [] : [["person", "another person, by link"]];
  for (let seat = 0; seat < game.players; seat++) {
    const options = [["me", "you"], ...people, ...opponents.map((name) => [name, name])];
    const select = el("select", { id: `seat${seat}` }, ...options.map(([value, text]) => el("option", { value }, text)));
    select.value = seat === 0 ? "me" : best;
    select.onchange = () => { if (select.value === "me") others(select, best); drawStart(); };
    at("seats").append(el("label", { htmlFor: select.id },
      el("span", { className: `swatch t-${game.tones[seat]}`, "aria-hidden": "true" }),
      game.players === 1 ? "Who plays" : `${game.names[seat]}${seat === 0 ? ", first in order" : ""}`), select);
  }
  drawStart();
}

const chosen = () => [...at("seats").querySelectorAll("select")];

function drawStart() {
  const watches = chosen().every((select) => select.value !== "me");
  at("start").textContent = watches ? "Watch" : "Play";
}

/** One seat is mine. */
function others(mine, best) {
  for (const select of chosen()) if (select !== mine && select.value === "me") select.value = best;
}

async function start() {
  const selects = chosen(), mine = selects.findIndex((select) => select.value === "me");
  if (!selects.length) return;
  const early = selects.slice(0, mine).some((select) => select.value === "person");
  if (early || (mine < 0 && selects.some((select) => select.value === "person")))
    throw new Error("Take the first of the seats that people play.");
  await open(linked().get("game"), selects.map((select) => (select.value === "me" ? "person" : select.value)));
}

async function open(game, seats) {
  const view = await ask("/api/tables", { game, seats });
  location.hash = `${seats.includes("person") ? "table" : "watch"}=${view.table}`;
}

// Playing

async function openTable(id, invite) {
  const path = `/api/tables/${encodeURIComponent(id)}`;
  const view = invite ? await ask(`${path}/join`, { invite }) : await ask(path);
  if (invite) history.replaceState(null, "", `#table=${id}`);
  at("values").replaceChildren();
  at("shared").hidden = true;
  state.typing = false;
  state.view = null;
  show("table");
  draw(view);
  problem("");
}

function draw(view) {
  const { view: before } = state;
  const fresh = !before || before.table !== view.table || before.turn !== view.turn || before.yours !== view.yours;
  state.view = view;
  clearTimeout(state.timer);
  state.pause = fresh ? 150 : Math.min(2 * state.pause, 1200); // an opponent may be quick
  if (!view.done && !view.yours) state.timer = setTimeout(poll, state.pause);
  cast(view.game, view.seats, view.seat);
  drawInvites(view);
  drawPlayers(at("players"), view.to_move);
  at("status").textContent = statusOf(view);
  if (!fresh) return;
  state.picked = null;
  remember(view);
  document.title = `${view.yours ? "Your turn: " : ""}${state.cast.facts.title}`;
  at("title").textContent = state.cast.facts.title;
  at("observed").textContent = view.text;
  at("rules").textContent = view.rules;
  drawPrompt(view.prompt);
  at("text").value = "";
  at("over").hidden = !view.done;
  const num = view.seats.filter((name) => name === "person").length;
  at("swap").hidden = view.seats.length < 2 || num > 1;
  drawHistory(view.history);
  drawMoves();
  drawReview(view, before && before.table === view.table && view.own_turns.length > before.own_turns.length);
}

function drawPrompt(prompt) {
  if (!prompt.length) return; // the last one stays
  at("prompt").replaceChildren(...prompt.map((message) => el("div", {}, el("b", {}, message.role), el("pre", {}, message.content))));
}

/** What was done by whom, as a line of text. */
function line(items) {
  const parts = items.flatMap(([seat, text]) => [el("span", { className: "did" },
    el("span", { className: `swatch t-${state.cast.facts.tones[seat]}`, "aria-hidden": "true" }), `${label(seat)} ${say(text)}`), " "]);
  return el("p", { className: "history" }, ...parts);
}

function drawHistory(done) {
  const latest = done.slice(-12);
  at("history").replaceChildren(...(done.length ? [el("h2", {}, done.length > 12 ? "Latest moves" : "Moves"), line(latest)] : []));
}

async function poll() {
  const { view } = state;
  if (at("table").hidden || !view || linked().get("table") !== view.table) return;
  let seen = null;
  await doing(async () => { seen = await ask(`/api/tables/${view.table}`); draw(seen); });
  if (seen) problem(seen.fault && `${seen.fault}; it is asked again in a while.`);
  else state.timer = setTimeout(poll, 3000);
}

const number = (value) => (value === null ? "" : String(+value.toFixed(4)));

/** How the game ended: in a few words, and in a sentence. */
function outcome(view) {
  const { returns, seat } = view, mine = returns[seat], top = Math.max(...returns);
  const { kind } = factsOf(view.game);
  if (returns.length === 1) return [`Scored ${number(mine)}`, `You scored ${number(mine)}.`];
  if (kind === "cooperative") return [`Scored ${number(mine)}`, `Together you scored ${number(mine)}.`];
  const plain = (paid) => number(paid).replace("-", "\u2212");
  const ends = returns.length === 2 ? `, ${plain(mine)} to ${plain(returns[1 - seat])}`
    : `: ${returns.map((paid, other) => `${other === seat ? "you" : label(other)} ${plain(paid)}`).join(", ")}`;
  const ties = returns.filter((paid) => paid === top).length;
  if (mine < top) return ["Lost", `${mine > Math.min(...returns) ? "You did not come first" : "You lost"}${ends}.`];
  if (ties === returns.length) return ["Drew", `A draw${ends}.`];
  return ["Won", `You won${ends}.`];
}

function statusOf(view) {
  if (view.done) {
    const forfeit = view.forfeited_by === null ? "" : ` ${label(view.forfeited_by)} forfeited.`;
    return `The game is over. ${outcome(view)[1]}${forfeit}`;
  }
  if (view.yours) return "Your turn.";
  return view.seats[view.to_move] === "person" ? `Waiting for ${label(view.to_move)}.` : `${label(view.to_move)} is thinking.`;
}

function drawInvites(view) {
  const free = view.invites.map((secret, seat) => [secret, seat]).filter(([secret]) => secret);
  at("invites").replaceChildren(...free.map(([secret, seat]) => {
    const value = `${location.origin}/#table=${view.table}&invite=${secret}`;
    const id = `invite${seat}`;
    return el("p", {}, el("label", { htmlFor: id }, `Send this link to who plays ${label(seat)}; it works in one browser`),
      el("input", { id, readOnly: true, value, onfocus: (event) => event.target.select() }));
  }));
}

function drawMoves() {
  const { view, picked } = state, hadFocus = at("moves").contains(document.activeElement)
    || at("scene").contains(document.activeElement) || document.activeElement === document.body;
  drawScene(at("scene"), view.scene, view.yours && !view.talk ? view.legal : []);
  at("moves").hidden = !view.yours;
  if (!view.yours) return;
  const typed = at("text").value.trim().toLowerCase(), many = view.legal.length > 40;
  // what a click on the board does needs no button
  const onBoard = (text) => !view.talk && reached(text);
  let legal = picked ? view.legal.filter((text) => named(text, picked)) : view.legal.filter((text) => !onBoard(text));
  if (many) legal = legal.filter((text) => text.toLowerCase().includes(typed)).slice(0, 12);
  const types = view.talk || state.typing || (many && !view.legal.every(onBoard));
  at("typing").hidden = !types;
  at("moves").classList.toggle("typed", types && legal.length > 9);
  at("type").hidden = types;
  at("ask").textContent = view.talk ? "Say something, then the action on a new line; or take an example"
    : many ? "Type a few letters to find a move" : "Type a move";
  at("buttons").replaceChildren(...legal.map((text) => el("button", {
    type: "button", onclick: () => (view.talk ? fill(text) : send(text)),
  }, say(text))));
  if (!hadFocus || typed) return;
  const first = types && (view.talk || many) ? at("text") : at("buttons").firstElementChild
    || at("scene").querySelector("button:not([tabindex='-1'])");
  if (first) first.focus({ preventScroll: true });
}

/** Whether clicks on the board play a move. */
const reached = (text) => state.names.has(text)
  || new Set(parts(text).filter((name) => state.names.has(name))).size > 1;

function fill(text) {
  const said = at("text").value.trim();
  at("text").value = said ? `${said}\n${text}` : text;
  at("text").focus();
}

const send = (text) => doing(async () => {
  const { view } = state;
  at("values").replaceChildren();
  try { draw(await ask(`/api/tables/${view.table}/reply`, { text, turn: view.turn })); }
  catch (error) {
    if (error.status === 409 || error.status === 503) draw(await ask(`/api/tables/${view.table}`));
    throw error;
  }
});

// After the game

const again = (turned) => doing(async () => {
  const { game, seats } = state.view;
  await open(game, turned ? [...seats.slice(1), seats[0]] : seats);
});

async function share() {
  const link = `${location.origin}${location.pathname}#record=${packed(await ask(`/api/tables/${state.view.table}/record`))}`;
  at("shared").hidden = false;
  at("shared").value = link;
  at("shared").select();
  try { await navigator.clipboard.writeText(link); at("share").textContent = "Copied"; }
  catch { at("share").textContent = "Copy the link"; } // only secure pages may write to the clipboard
  setTimeout(() => { at("share").textContent = "Share"; }, 3000);
}

// Squares: a move names them, as "b2", "e2e4" or "a1-b1"

const parts = (text) => [...text.toLowerCase().split(/[^a-z0-9]+/), ...(text.toLowerCase().match(/[a-z]\d+/g) || [])];
const named = (text, name) => text === name || parts(text).includes(name);

function nameOf(grid, row, column) {
  const { left, top } = grid;
  if (grid.narrow && row % 2 !== column % 2)
    return row % 2 ? `${top[column]}${left[row - 1]}-${top[column]}${left[row + 1]}`
      : `${top[column - 1]}${left[row]}-${top[column + 1]}${left[row]}`;
  return `${top[column] || ""}${left[row] || ""}`;
}

function pick(name) {
  const { legal } = state.view, { picked } = state;
  if (legal.includes(name)) return send(name);
  if (picked && picked !== name) {
    const both = legal.filter((text) => named(text, picked) && named(text, name));
    if (both.length === 1) return send(both[0]);
  }
  state.picked = picked === name ? null : name;
  drawMoves();
}

/** Puts the focus on the next square that can be clicked, in the direction of an arrow. */
function goOver(key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const middle = (box) => [box.left + box.width / 2, box.top + box.height / 2];
  const [x, y] = middle(document.activeElement.getBoundingClientRect());
  const far = (button) => {
    const [bx, by] = middle(button.getBoundingClientRect());
    const along = (bx - x) * dx + (by - y) * dy, across = Math.abs((bx - x) * dy) + Math.abs((by - y) * dx);
    return along < 2 ? Infinity : along + 3 * across;
  };
  const next = [...at("scene").querySelectorAll("button")].map((button) => [far(button), button])
    .reduce((best, each) => (each[0] < best[0] ? each : best), [Infinity, null])[1];
  if (next) next.focus();
}

// Pictures

const TURNS = /^(player_\d+ is to move|All players choose|Chance draws|The game is over: .*)\.$/; // the status says it

function drawScene(place, scene, legal = []) {
  const draws = { Grid: drawGrid, Cards: drawCards, Table: drawTable, Track: drawTrack, Talk: drawTalk };
  state.names = new Set();
  const title = TURNS.test(scene.title) ? "" : scene.title;
  place.replaceChildren(...[el("p", {}, say(title))].filter(() => title),
    ...scene.shapes.map((shape) => el("div", { className: `shape ${shape.kind.toLowerCase()}` }, ...draws[shape.kind](shape, legal))));
}

/** The word for a tone: that of the seat whose pieces have it. */
const colorOf = (name) => state.cast.facts.colors[state.cast.facts.tones.indexOf(name)] || name;
const tone = (name) => (name ? `t-${name}` : "");
const heading = (title) => (title ? el("p", { className: "caption" }, say(title)) : "");

/** A part of the board that is clicked. */
function clickable(tag, props, name, ...children) {
  state.names.add(name);
  const picked = state.picked === name ? " picked" : "";
  return el(tag, { ...props, className: `${props.className}${picked}`, type: "button", onclick: () => pick(name) }, ...children);
}

function drawGrid(grid, legal) {
  const columns = Math.max(...grid.rows.map((row) => row.length), 1);
  const rows = grid.rows.map((row, r) => {
    const cells = row.map((cell, c) => el("td",
      { className: grid.narrow ? `${c % 2 ? "" : "narrow-x"} ${r % 2 ? "" : "narrow-y"}` : "" },
      square(grid, cell, r, c, legal)));
    const line = el("tr", {}, grid.left.length ? el("th", { scope: "row" }, grid.left[r] || "") : null, ...cells);
    if (grid.shift) line.style.transform = `translateX(calc(${grid.shift * r} * var(--side)))`;
    return line;
  });
  const head = grid.top.length ? el("tr", {}, grid.left.length ? el("td") : null,
    ...[...grid.top].map((text) => el("th", { scope: "col" }, text))) : null;
  const table = el("table", { className: `cells${grid.shift ? " hexes" : ""}` },
    grid.title ? el("caption", {}, say(grid.title)) : null, head, ...rows);
  const width = (row) => (grid.narrow ? row.length / 2 : row.length);
  table.style.setProperty("--columns", (grid.narrow ? width({ length: columns }) + 1 : columns) + (grid.left.length ? 1 : 0) + grid.shift * grid.rows.length);
  if (grid.shift) table.style.marginRight = `calc(${grid.shift * grid.rows.length} * var(--side))`;
  return [table];
}

function square(grid, cell, row, column, legal) {
  const name = nameOf(grid, row, column);
  const plays = name && legal.some((text) => named(text, name));
  const inside = cell.disc && cell.tone ? el("span", { className: `disc ${tone(cell.tone)}` }, cell.text) : cell.text;
  const dark = grid.checkered && (row + column) % 2 ? "shade" : "";
  const className = `cell ${dark} ${cell.disc ? "" : tone(cell.tone)} ${cell.mark ? "marked" : ""}`;
  const told = [name || "square", cell.text, cell.disc ? colorOf(cell.tone) : "", cell.mark ? "marked" : ""]
    .filter(Boolean).join(", ");
  if (!plays) return el("span", { className, role: "img", "aria-label": told }, inside);
  // of a column that a move names, the keyboard stops at the first square only
  const again = state.names.has(name) && !grid.left.length;
  return clickable("button", { className, "aria-label": told, ...(again ? { tabIndex: -1 } : {}) }, name, inside);
}

/** What names a card in a move: its face, or its place in the hand as in "play 0". */
function nameOfCard(cards, card, place, legal) {
  if (cards.seat === null || cards.seat !== (state.view || {}).seat) return null;
  if (card.text !== null && legal.includes(card.text)) return card.text;
  return legal.some((text) => /^[a-z]+ \d+$/.test(text) && text.endsWith(` ${place}`)) ? String(place) : null;
}

function drawCards(cards, legal) {
  const items = cards.cards.map((card, place) => {
    const name = nameOfCard(cards, card, place, legal);
    const face = card.text === null ? el("span", { role: "img", "aria-label": "face down" }, "?") : card.text;
    const className = `card ${card.text === null ? "face-down" : tone(card.tone)}`;
    const inside = [face, card.note ? el("span", { className: "note" }, `\n${card.note}`) : null];
    return el("li", {}, name === null ? el("span", { className }, ...inside) : clickable("button", { className }, name, ...inside));
  });
  return [heading(cards.title), items.length ? el("ul", { className: "hand" }, ...items) : el("p", { className: "soft" }, "none yet")];
}

function drawTable(table) {
  const head = table.header.length ? [el("tr", {}, ...table.header.map((text) => el("th", { scope: "col" }, say(text))))] : [];
  const rows = table.rows.map((row) => el("tr", {}, ...row.map((cell) =>
    el("td", { className: `${tone(cell.tone)} ${cell.mark ? "marked" : ""}` }, say(cell.text)))));
  return [el("table", { className: "facts" }, table.title ? el("caption", {}, say(table.title)) : null, ...head, ...rows)];
}

/** Seat and text of a past action: named by the text, or by the color of a seat. */
function doneBy(cell) {
  const [, seat, text] = /^player_(\d+) (.*)$/s.exec(cell.text) || [];
  if (seat !== undefined) return [Number(seat), text];
  const place = /^seat\d/.test(cell.tone) ? state.cast.facts.tones.indexOf(cell.tone) : -1;
  return place < 0 ? null : [place, cell.text];
}

/** Past actions are a line of text; chips, from which a move may take, are clicked. */
function drawTrack(track, legal) {
  const done = track.items.map(doneBy);
  if (done.length && done.every(Boolean)) return [heading(track.title), line(done)];
  const pile = track.title.split(":")[0], num = track.items.filter((cell) => cell.text).length;
  const items = track.items.map((cell, i) => {
    const className = `item ${tone(cell.tone)} ${cell.mark ? "marked" : ""}`;
    const text = legal.find((each) => each.endsWith(` ${pile}`) && parts(each)[1] === String(num - i));
    return el("li", {}, text ? clickable("button", { className, "aria-label": text }, text, cell.text || "\u00a0")
      : el("span", { className }, say(cell.text) || "\u00a0"));
  });
  return [heading(track.title), el("ol", { className: "chips-row" }, ...items)];
}

function drawTalk(talk) {
  const { mine } = state.cast;
  const items = talk.said.map((bubble) => el("li", { className: bubble.seat !== null && bubble.seat === mine ? "mine" : "" },
    el("b", {}, bubble.seat === null ? say(bubble.audience) : `${label(bubble.seat)}${bubble.audience ? ` to ${say(bubble.audience)}` : ""}`),
    [bubble.words, say(bubble.action)].filter(Boolean).join("\n")));
  return [heading(talk.title), el("ul", { className: "talk" }, ...items)];
}

// What moves were worth

function valuesOf(moves) {
  if (moves.fault) return [el("p", { className: "soft" }, `No values: ${moves.fault}.`)];
  const order = moves.values.map((_, i) => i).sort((a, b) => moves.values[b] - moves.values[a]);
  const [low, high] = [Math.min(...moves.values), Math.max(...moves.values)];
  const rows = order.map((i) => {
    const bar = el("span", { className: "worth", "aria-hidden": "true" });
    bar.style.width = `${high > low ? (5 * (moves.values[i] - low)) / (high - low) : 5}rem`;
    return el("tr", { className: i === moves.played ? "played" : "" },
      el("td", {}, `${say(moves.actions[i])}${i === moves.played ? " (played)" : ""}`),
      el("td", {}, bar, number(moves.values[i])), el("td", {}, `${(100 * moves.mix[i]).toFixed(1)} %`));
  });
  const played = moves.played === null ? "This move" : say(moves.actions[moves.played]), best = say(moves.actions[order[0]]);
  const verdict = moves.regret === null ? "" : moves.regret < 1e-6 ? `${capital(played)}: no move was better.`
    : `${capital(played)} gave away ${number(moves.regret)}; best was ${best}.`;
  const head = el("tr", {}, ...["move", "value", "best mix"].map((text) => el("th", { scope: "col" }, text)));
  return [el("p", { className: "verdict" }, verdict),
    el("div", { className: "long", tabIndex: 0, role: "region", "aria-label": "Values of moves" }, el("table", { className: "values" }, head, ...rows)),
    el("p", { className: "soft" }, `Regret ${number(moves.regret)}, advantage ${number(moves.advantage)}. Values: expected returns if ${say(moves.reference)}.`)];
}

const isWide = () => matchMedia("(min-width: 60rem)").matches;

/** On a wide screen the worth of a move comes by itself, elsewhere by a button. */
function drawReview(view, isNew) {
  const shows = view.own_turns.length > 0 && !state.worthless.has(view.game);
  at("review").hidden = !shows;
  if (shows && isNew && isWide()) return review();
}

const review = () => doing(async () => {
  const { view } = state, turn = view.own_turns[view.own_turns.length - 1];
  const moves = await ask(`/api/tables/${view.table}/review?turn=${turn}`);
  if (state.view.table !== view.table || !state.view.own_turns.includes(turn)) return;
  if (moves.fault) { state.worthless.add(view.game); at("review").hidden = true; }
  at("values").replaceChildren(...valuesOf(moves));
});

// Replays, and games that are watched

const packed = (record) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(record))))
  .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function unpacked(text) {
  try {
    const bytes = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0))));
  } catch { throw new Error("This link is broken; ask for it again."); }
}

async function openReplay(record) {
  const seats = Array.isArray(record.seats) ? record.seats.map(String) : [];
  state.replay = await ask("/api/replay", record);
  state.record = record;
  at("link").value = location.href;
  begin(seats.map((name) => (name === "person" ? "a person" : name)), false);
}

/** A game of policies, which goes on while it is watched. */
async function openWatch(id) {
  const path = `/api/tables/${encodeURIComponent(id)}/watch?from=`;
  state.replay = { ...await ask(`${path}0`), path };
  state.record = null;
  begin(state.replay.seats, !matchMedia("(prefers-reduced-motion: reduce)").matches);
}

function begin(seats, runs) {
  const { replay } = state;
  cast(replay.game, seats, null);
  document.title = `${replay.title}: ${replay.path ? "watch" : "replay"}`;
  at("played").textContent = document.title;
  at("linked").hidden = Boolean(replay.path);
  show("replay");
  goTo(0);
  setRunning(runs);
}

function setRunning(runs) {
  clearTimeout(state.timer);
  state.runs = runs;
  at("run").setAttribute("aria-pressed", String(runs));
  at("run").textContent = runs ? "Pause" : "Run";
  if (runs) state.timer = setTimeout(tick, 900);
}

/** One turn further; at the last one of a watched game, asks for the next. */
async function tick() {
  if (at("replay").hidden) return;
  await doing(async () => {
    const { replay } = state;
    if (state.number < replay.turns.length) goTo(state.number + 1);
    if (state.number === replay.turns.length) await grow(replay);
  });
  const { replay } = state, goesOn = state.number < replay.turns.length || (replay.path && !replay.done);
  if (state.runs) setRunning(goesOn);
}

async function grow(replay) {
  if (!replay.path || replay.done) return;
  const more = await ask(`${replay.path}${replay.turns.length}`);
  if (state.replay !== replay) return;
  problem(more.fault && `${more.fault}; it is asked again in a while.`);
  Object.assign(replay, { ...more, turns: [...replay.turns, ...more.turns] });
  if (replay.done) state.record = await ask(replay.path.replace(/watch.*/, "record"));
  goTo(state.number);
}

function goTo(place) {
  const { replay } = state, last = replay.turns.length;
  state.number = Math.min(Math.max(place, 0), last);
  at("slider").max = last;
  at("slider").value = state.number;
  at("place").textContent = `${state.number} of ${last}`;
  const turn = replay.turns[state.number];
  drawPlayers(at("cast"), turn && turn.seat);
  drawScene(at("shown"), turn ? turn.scene : replay.end);
  drawWords(replay.turns.slice(0, state.number + 1));
  if (!turn) {
    const ends = replay.returns.map((paid, seat) => `${who(seat)} ${number(paid)}`).join("; ");
    at("turn").textContent = replay.done ? `The end: ${ends}.` : replay.path ? "The next turn is awaited." : `Broken off: ${ends}.`;
    at("worth").replaceChildren();
    return;
  }
  at("turn").textContent = `${who(turn.seat)}: ${turn.invalid ? `forfeits: ${turn.invalid}` : say(turn.reply)}`;
  drawWorth(turn);
}

function drawWorth(turn) {
  const { replay } = state, isLive = replay.path && !replay.done;
  const paid = isLive ? "" : el("p", {}, `Reward ${number(turn.reward)}, return from here ${number(turn.to_go)}.`);
  const solve = () => doing(async () => {
    turn.moves = await ask("/api/values", { ...state.record, turn: replay.turns.indexOf(turn) });
    if (state.replay.turns[state.number] === turn) drawWorth(turn);
  });
  at("worth").replaceChildren(paid, ...(turn.moves ? valuesOf(turn.moves)
    : isLive ? [] : [el("button", { type: "button", onclick: solve }, "Regret and best mix")]));
}

/** What each seat wrote, the latest last. */
function drawWords(turns) {
  at("words").replaceChildren(...turns.slice(-8).map((turn) => el("li", {},
    el("b", {}, el("span", { className: `swatch t-${state.cast.facts.tones[turn.seat]}`, "aria-hidden": "true" }), who(turn.seat)),
    turn.words === turn.reply ? say(turn.words) : turn.words)));
  at("words").lastElementChild?.classList.add("now");
  at("words").scrollTop = at("words").scrollHeight;
}

// Events

at("enter").onsubmit = (event) => {
  event.preventDefault();
  doing(async () => { await ask("/api/visit", { token: at("token").value }); at("token").value = ""; await route(); });
};
at("find").onsubmit = (event) => event.preventDefault();
at("filter").oninput = listGames;
at("all").onclick = () => { at("filter").value = ""; state.kind = ""; home(); };
at("new").onsubmit = (event) => { event.preventDefault(); doing(start); };
at("moves").onsubmit = (event) => { event.preventDefault(); send(at("text").value.trim()); };
at("text").oninput = () => { if (state.view && state.view.legal.length > 40) drawMoves(); };
at("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); at("moves").requestSubmit(); }
};
const type = () => { state.typing = true; drawMoves(); at("text").focus(); };
at("type").onclick = type;
at("review").onclick = review;
at("again").onclick = () => again(false);
at("swap").onclick = () => again(true);
at("share").onclick = () => doing(share);
at("shared").onfocus = () => at("shared").select();
at("credit").onclick = () => doing(async () => {
  location.hash = `record=${packed(await ask(`/api/tables/${state.view.table}/record`))}`;
});
at("slider").oninput = () => { setRunning(false); goTo(Number(at("slider").value)); };
at("run").onclick = () => { if (state.number === state.replay.turns.length && state.replay.done) goTo(0); setRunning(!state.runs); };
at("link").onfocus = () => at("link").select();
for (const button of at("replay").querySelectorAll("[data-by]"))
  button.onclick = () => { setRunning(false); goTo(state.number + Number(button.dataset.by)); };

const WAYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.altKey || event.metaKey;
  if (typing) return;
  if (!at("home").hidden && event.key === "/") { event.preventDefault(); at("filter").focus(); }
  if (!at("replay").hidden && /^Arrow(Left|Right)$/.test(event.key)) {
    setRunning(false);
    goTo(state.number + (event.key === "ArrowLeft" ? -1 : 1));
  }
  if (at("table").hidden || at("moves").hidden) return;
  const { view } = state;
  if (/^[1-9]$/.test(event.key)) {
    const button = at("buttons").children[Number(event.key) - 1];
    if (button) button.click();
  } else if (event.key === "/") { event.preventDefault(); type(); }
  else if (event.key === "Escape" && state.picked) { state.picked = null; drawMoves(); }
  else if (WAYS[event.key] && !view.talk && view.legal.includes(WAYS[event.key])) { event.preventDefault(); send(WAYS[event.key]); }
  else if (WAYS[event.key] && at("scene").contains(event.target)) { event.preventDefault(); goOver(event.key); }
});
window.addEventListener("hashchange", () => doing(route));
doing(route).then(() => { document.body.dataset.ready = "yes"; });
