"use strict";
const at = (id) => document.getElementById(id);
const state = { games: [], offered: {}, view: null, picked: null, timer: null, replay: null, number: 0 };

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

const show = (id) => {
  for (const name of ["enter", "choose", "table", "replay"]) at(name).hidden = name !== id;
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

async function enter(token) {
  let found;
  try { found = await ask("/api/games"); }
  catch (error) {
    if (error.status !== 401) throw error;
    await ask("/api/visit", { token: token || "" });
    found = await ask("/api/games");
  }
  state.games = found.games;
  at("missing").textContent = found.missing || "";
}

const linked = () => new URLSearchParams(location.hash.slice(1));

async function route() {
  clearTimeout(state.timer);
  const link = linked();
  await enter(link.get("token"));
  if (link.has("token")) { location.hash = ""; return; }
  if (link.has("record")) await openReplay(unpacked(link.get("record")));
  else if (link.has("table")) await openTable(link.get("table"), link.get("invite"));
  else choose();
}

// Choosing a game

function choose() {
  document.title = "arena";
  show("choose");
  listGames();
}

function listGames() {
  const wanted = at("filter").value.toLowerCase(), before = at("game").value;
  const fits = (game) => `${game.id} ${game.title} ${game.kind}`.toLowerCase().includes(wanted);
  const found = state.games.filter(fits);
  at("game").replaceChildren(...found.map((game) =>
    el("option", { value: game.id }, `${game.title} (${game.id.replace(/-v\d+$/, "")})`)));
  const named = (id) => found.some((game) => game.id === id);
  at("game").value = [before, "tic_tac_toe-v0"].find(named) || (found[0] || {}).id || "";
  return doing(listSeats);
}

async function listSeats() {
  const game = state.games.find((one) => one.id === at("game").value);
  at("seats").replaceChildren();
  if (!game) { at("facts").textContent = "No game has this name."; return; }
  const words = [game.kind, `${game.information} information`, game.talk ? "talk" : "listed moves"];
  at("facts").textContent = `${game.players} ${game.players === 1 ? "player" : "players"}, ${words.join(", ")}`;
  state.offered[game.id] ||= (await ask(`/api/games/${encodeURIComponent(game.id)}`)).opponents;
  const opponents = state.offered[game.id];
  if (at("game").value !== game.id) return;
  const best = opponents.length > 1 ? opponents[1] : opponents[0];
  at("seats").replaceChildren();
  for (let seat = 0; seat < game.players; seat++) {
    const people = self.here ? [] : [["person", "another person, by link"]];
    const who = [["me", "you"], ...people, ...opponents.map((name) => [name, name])];
    const select = el("select", { id: `seat${seat}` }, ...who.map(([value, text]) => el("option", { value }, text)));
    select.value = seat === 0 ? "me" : best;
    select.onchange = () => select.value === "me" && others(select, best);
    at("seats").append(el("label", { htmlFor: select.id }, `player_${seat}`), select);
  }
}

/** One seat is mine. */
function others(mine, best) {
  for (const select of at("seats").querySelectorAll("select"))
    if (select !== mine && select.value === "me") select.value = best;
}

async function start() {
  const selects = [...at("seats").querySelectorAll("select")];
  const mine = selects.findIndex((select) => select.value === "me");
  if (mine < 0) throw new Error("Choose a seat for yourself.");
  const early = selects.slice(0, mine).some((select) => select.value === "person");
  if (early) throw new Error("Take the first of the seats that people play.");
  const seats = selects.map((select) => (select.value === "me" ? "person" : select.value));
  const view = await ask("/api/tables", { game: at("game").value, seats });
  location.hash = `table=${view.table}`;
}

// Playing

async function openTable(id, invite) {
  const path = `/api/tables/${encodeURIComponent(id)}`;
  const view = invite ? await ask(`${path}/join`, { invite }) : await ask(path);
  if (invite) history.replaceState(null, "", `#table=${id}`);
  at("values").replaceChildren();
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
  drawInvites(view);
  at("status").textContent = statusOf(view);
  if (!fresh) return;
  state.picked = null;
  const game = state.games.find((one) => one.id === view.game);
  document.title = `${view.yours ? "Your turn: " : ""}${game.title}`;
  at("title").textContent = `${game.title}: you are player_${view.seat}`;
  at("observed").textContent = view.text;
  at("rules").textContent = view.rules;
  at("text").value = "";
  at("review").hidden = view.own_turns.length === 0;
  at("credit").hidden = !view.done;
  drawMoves();
}

async function poll() {
  const { view } = state;
  if (at("table").hidden || !view || linked().get("table") !== view.table) return;
  let seen = null;
  await doing(async () => { seen = await ask(`/api/tables/${view.table}`); draw(seen); });
  if (seen) problem(seen.fault && `${seen.fault}; it is asked again in a while.`);
  else state.timer = setTimeout(poll, 3000);
}

function statusOf(view) {
  if (!view.done) return view.yours ? "Your turn." : `Waiting for player_${view.to_move}.`;
  const who = (seat) => (seat === view.seat ? "you" : `player_${seat}`);
  const ends = view.returns.map((paid, seat) => `${who(seat)} ${+paid.toFixed(4)}`);
  const forfeit = view.forfeited_by === null ? "" : ` player_${view.forfeited_by} forfeited.`;
  return `The game is over: ${ends.join(", ")}.${forfeit}`;
}

function drawInvites(view) {
  const free = view.invites.map((secret, seat) => [secret, seat]).filter(([secret]) => secret);
  at("invites").replaceChildren(...free.map(([secret, seat]) => {
    const value = `${location.origin}/#table=${view.table}&invite=${secret}`;
    const id = `invite${seat}`;
    return el("p", {}, el("label", { htmlFor: id }, `Link for player_${seat}, for one browser`),
      el("input", { id, readOnly: true, value, onfocus: (event) => event.target.select() }));
  }));
}

function drawMoves() {
  const { view, picked } = state, hadFocus = at("moves").contains(document.activeElement)
    || at("scene").contains(document.activeElement) || document.activeElement === document.body;
  drawScene(at("scene"), view.scene, view.yours && !view.talk ? view.legal : []);
  at("moves").hidden = !view.yours;
  if (!view.yours) return;
  const typed = at("text").value.trim().toLowerCase();
  let legal = picked ? view.legal.filter((text) => named(text, picked)) : view.legal;
  if (legal.length > 40) legal = legal.filter((text) => text.toLowerCase().includes(typed)).slice(0, 40);
  at("ask").textContent = view.talk ? "Say something, then the action on a new line; or take an example above"
    : "Or type a move";
  at("buttons").replaceChildren(...legal.map((text) => el("button", {
    type: "button", onclick: () => (view.talk ? fill(text) : send(text)),
  }, text)));
  if (hadFocus && !typed) (view.talk ? at("text") : at("buttons").firstElementChild || at("text")).focus({ preventScroll: true });
}

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

// Pictures

function drawScene(place, scene, legal = []) {
  const draws = { Grid: drawGrid, Cards: drawCards, Table: drawTable, Track: drawTrack, Talk: drawTalk };
  place.replaceChildren(...[el("p", {}, scene.title)].filter(() => scene.title),
    ...scene.shapes.map((shape) => el("div", { className: "shape" }, ...draws[shape.kind](shape, legal))));
}

const tone = (name) => (name ? `t-${name}` : "");

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
  const table = el("table", { className: "grid" }, grid.title ? el("caption", {}, grid.title) : null, head, ...rows);
  table.style.setProperty("--columns", columns + (grid.left.length ? 1 : 0) + grid.shift * grid.rows.length);
  return [table];
}

function square(grid, cell, row, column, legal) {
  const name = nameOf(grid, row, column);
  const plays = name && legal.some((text) => named(text, name));
  const inside = cell.disc && cell.tone ? el("span", { className: `disc ${tone(cell.tone)}` }, cell.text) : cell.text;
  const dark = grid.checkered && (row + column) % 2 ? "shade" : "";
  const marks = `${cell.mark ? "marked" : ""} ${plays && state.picked === name ? "picked" : ""}`;
  const className = `cell ${dark} ${cell.disc ? "" : tone(cell.tone)} ${marks}`;
  const told = [name || "square", cell.text, cell.disc ? cell.tone : "", cell.mark ? "marked" : ""].filter(Boolean).join(", ");
  if (!plays) return el("span", { className, role: "img", "aria-label": told }, inside);
  return el("button", { className, type: "button", "aria-label": told, onclick: () => pick(name) }, inside);
}

function drawCards(cards) {
  const items = cards.cards.map((card) => el("li",
    { className: `card ${card.text === null ? "face-down" : tone(card.tone)}` },
    card.text === null ? el("span", { role: "img", "aria-label": "face down" }, "?") : card.text,
    card.note ? el("span", { className: "note" }, `\n${card.note}`) : null));
  return [el("p", {}, cards.title), el("ul", { className: "cards" }, ...items)];
}

function drawTable(table) {
  const head = table.header.length ? [el("tr", {}, ...table.header.map((text) => el("th", { scope: "col" }, text)))] : [];
  const rows = table.rows.map((row) => el("tr", {}, ...row.map((cell) =>
    el("td", { className: `${tone(cell.tone)} ${cell.mark ? "marked" : ""}` }, cell.text))));
  return [el("table", { className: "table" }, table.title ? el("caption", {}, table.title) : null, ...head, ...rows)];
}

function drawTrack(track) {
  const items = track.items.map((cell) =>
    el("li", { className: `item ${tone(cell.tone)} ${cell.mark ? "marked" : ""}` }, cell.text || "\u00a0"));
  return [el("p", {}, track.title), el("ol", { className: "track" }, ...items)];
}

function drawTalk(talk) {
  const items = talk.said.map((bubble) => el("li", {},
    el("b", {}, bubble.seat === null ? bubble.audience : `player_${bubble.seat}${bubble.audience ? ` to ${bubble.audience}` : ""}`),
    [bubble.words, bubble.action].filter(Boolean).join("\n")));
  return [talk.title ? el("p", {}, talk.title) : null, el("ul", { className: "talk" }, ...items)].filter(Boolean);
}

// Regret and credit

const number = (value) => (value === null ? "" : String(+value.toFixed(4)));

function valuesOf(moves) {
  if (moves.fault) return [el("p", { className: "soft" }, `No values: ${moves.fault}.`)];
  const order = moves.values.map((_, i) => i).sort((a, b) => moves.values[b] - moves.values[a]);
  const rows = order.map((i) => el("tr", {}, el("td", {}, `${moves.actions[i]}${i === moves.played ? " (played)" : ""}`),
    el("td", {}, number(moves.values[i])), el("td", {}, `${(100 * moves.mix[i]).toFixed(1)} %`)));
  const head = el("tr", {}, ...["move", "value", "best mix"].map((text) => el("th", { scope: "col" }, text)));
  return [el("p", {}, `Regret ${number(moves.regret)}, advantage ${number(moves.advantage)}.`),
    el("table", { className: "values" }, head, ...rows),
    el("p", { className: "soft" }, `Values: expected returns if ${moves.reference}.`)];
}

const review = () => doing(async () => {
  const { view } = state, turn = view.own_turns[view.own_turns.length - 1];
  const moves = await ask(`/api/tables/${view.table}/review?turn=${turn}`);
  at("values").replaceChildren(...valuesOf(moves));
});

const packed = (record) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(record))))
  .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function unpacked(text) {
  try {
    const bytes = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0))));
  } catch { throw new Error("This link is broken; ask for it again."); }
}

async function openReplay(record) {
  state.replay = await ask("/api/replay", record);
  state.record = record;
  state.seats = Array.isArray(record.seats) ? record.seats.map(String) : [];
  at("link").value = location.href;
  at("slider").max = state.replay.turns.length;
  show("replay");
  goTo(0);
}

function goTo(place) {
  const { replay, seats } = state, last = replay.turns.length;
  state.number = Math.min(Math.max(place, 0), last);
  at("slider").value = state.number;
  at("place").textContent = `${state.number} of ${last}`;
  at("played").textContent = `${replay.title}: replay`;
  const turn = replay.turns[state.number];
  drawScene(at("shown"), turn ? turn.scene : replay.end);
  const who = (seat) => `player_${seat}${seats[seat] ? ` (${seats[seat]})` : ""}`;
  if (!turn) {
    const ends = replay.returns.map((paid, seat) => `${who(seat)} ${number(paid)}`);
    at("turn").textContent = `${replay.done ? "The end" : "Broken off"}: ${ends.join(", ")}.`;
    at("worth").replaceChildren();
    return;
  }
  const said = turn.invalid ? `forfeits: ${turn.invalid}` : turn.reply;
  at("turn").textContent = `${who(turn.seat)}: ${said}`;
  const paid = el("p", {}, `Reward ${number(turn.reward)}, return from here ${number(turn.to_go)}.`);
  const draw = () => at("worth").replaceChildren(paid, ...(turn.moves ? valuesOf(turn.moves)
    : [el("button", { type: "button", onclick: solve }, "Regret and best mix")]));
  const solve = () => doing(async () => {
    turn.moves = await ask("/api/values", { ...state.record, turn: replay.turns.indexOf(turn) });
    if (state.replay.turns[state.number] === turn) draw();
  });
  draw();
}

// Events

at("enter").onsubmit = (event) => {
  event.preventDefault();
  doing(async () => { await ask("/api/visit", { token: at("token").value }); at("token").value = ""; await route(); });
};
at("filter").oninput = listGames;
at("game").onchange = () => doing(listSeats);
at("new").onsubmit = (event) => { event.preventDefault(); doing(start); };
at("moves").onsubmit = (event) => { event.preventDefault(); send(at("text").value.trim()); };
at("text").oninput = () => { if (state.view && state.view.legal.length > 40) drawMoves(); };
at("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); at("moves").requestSubmit(); }
};
at("review").onclick = review;
at("credit").onclick = () => doing(async () => {
  location.hash = `record=${packed(await ask(`/api/tables/${state.view.table}/record`))}`;
});
at("slider").oninput = () => goTo(Number(at("slider").value));
at("link").onfocus = () => at("link").select();
for (const button of at("replay").querySelectorAll("[data-by]"))
  button.onclick = () => goTo(state.number + Number(button.dataset.by));
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.altKey || event.metaKey;
  if (typing) return;
  if (!at("replay").hidden && event.key === "ArrowLeft") goTo(state.number - 1);
  if (!at("replay").hidden && event.key === "ArrowRight") goTo(state.number + 1);
  if (!at("table").hidden && !at("moves").hidden && /^[1-9]$/.test(event.key)) {
    const button = at("buttons").children[Number(event.key) - 1];
    if (button) button.click();
  }
});
window.addEventListener("hashchange", () => doing(route));
doing(route).then(() => { document.body.dataset.ready = "yes"; });
