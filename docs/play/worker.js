// Runs the rules, texts, scenes and bots in Pyodide, away from the page's own thread.
const PYODIDE = "{{pyodide}}";

const bytes = async (name) => {
  const got = await fetch(name);
  if (!got.ok) throw new Error(`${name}: ${got.status} ${got.statusText}`);
  return got.arrayBuffer();
};

async function start() {
  const [{ loadPyodide }, packed, offers] = await Promise.all([
    import(`${PYODIDE}pyodide.mjs`), bytes("arena.zip"), bytes("offers.json"),
  ]);
  const python = await loadPyodide({ indexURL: PYODIDE });
  python.unpackArchive(packed, "zip", { extractDir: "/arena" });
  python.runPython("import sys; sys.path.insert(0, '/arena')");
  const tables = python.pyimport("play_here");
  tables.start(new TextDecoder().decode(offers));
  return { python, tables };
}

const started = start();
started.catch(() => {}); // each answer tells
let chess = null; // a package of its own, which comes with the first game of chess

async function answer(path, body) {
  const { python, tables } = await started;
  if ([body.game, body.saved?.game].includes("chess-v0")) {
    chess ||= bytes("chess.zip").then((zip) => python.unpackArchive(zip, "zip", { extractDir: "/arena" }));
    await chess;
    python.runPython("import importlib; importlib.invalidate_caches()");
  }
  return JSON.parse(tables.answer(path, JSON.stringify(body)));
}

let last = Promise.resolve(); // one request after the other
onmessage = ({ data: { id, path, body } }) => {
  last = last.then(() => answer(path, body)).catch((error) => [500, { error: String(error.message || error) }])
    .then((found) => postMessage({ id, found }));
};
