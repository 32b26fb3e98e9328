"""The site's page `play/` in Chromium: our Python in the browser, without a server."""

import runpy
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_envs import game_infos, make_game
from arena_studio.web import links, views
from arena_wrappers import SeatSession
from build_play import write_app

pytestmark = pytest.mark.slow
PAGES = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).with_name("game_pages.py")))
)
PHONE = {"viewport": {"width": 390, "height": 800}}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory, pyodide) -> Iterator[str]:
    """A server of files: the page, and Pyodide in place of the one of a network."""
    folder = tmp_path_factory.mktemp("site")
    write_app(folder / "play", "/pyodide/")
    shutil.copytree(pyodide, folder / "pyodide")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/play/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def opened(browser, address) -> Iterator[Any]:
    """A page of a phone, which has loaded Python; its errors fail the tests."""
    troubles: list[str] = []
    context = browser.new_context(bypass_csp=True, **PHONE)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.on("console", lambda said: troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(address.removesuffix("play/"))
            else troubles.append(asked.url)
        ),
    )
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
    yield page
    context.close()
    assert troubles == []


@pytest.fixture
def page(opened) -> Any:
    """The page at its start."""
    opened.evaluate("location.hash = ''")
    opened.wait_for_selector("#home:not([hidden])")
    opened.fill("#filter", "")
    return opened


@pytest.mark.parametrize(
    ("game", "seats"),
    [
        ("leduc_poker", ["me", "cfr"]),
        ("limit_holdem", ["random", "me"]),
        ("goofspiel", ["me", "ismcts:100"]),
        ("mini_hanabi", ["me", "hanabi_convention"]),
        ("taboo", ["me", "taboo:honest"]),
        ("deal_or_no_deal", ["me", "dealer:honest"]),
        ("werewolf", ["me", *["werewolf_player:honest"] * 5]),
        ("frozen_lake", ["me"]),
        ("dots_and_boxes", ["me", "minimax"]),
        ("rock_paper_scissors", ["me", "cfr"]),
    ],
)
def test_a_whole_game_is_played_on_a_phone(page, game, seats) -> None:
    PAGES.begin(page, game, *seats)
    for _ in range(120):  # Frozen Lake may take 100
        PAGES.fits_the_phone(page)
        if PAGES.over(page):
            break
        PAGES.first_move(page)
    assert PAGES.over(page)
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    PAGES.fits_the_phone(page)
    assert "Reward" in page.inner_text("#worth")
    assert page.evaluate("state.replay") == links.replayed(
        page.evaluate("state.record")
    )


PLAY = """async ([game, seats, seed]) => {
  const shown = [];
  let view = await ask("/api/tables", { game, seats, seed });
  const path = `/api/tables/${view.table}`, start = performance.now();
  while (!view.done && shown.length < 8) {
    const text = view.legal[(7 * shown.length + 3) % view.legal.length];
    shown.push([view.text, view.legal, text]);
    view = await ask(`${path}/reply`, { text, turn: view.turn });
  }
  return [shown, view.text, view.saved.replies, (performance.now() - start) / shown.length];
}"""


@pytest.mark.parametrize("game", [info.id for info in game_infos()])
def test_moves_agree_with_python_under_the_same_seed(page, game) -> None:
    offered = page.evaluate(f"ask('/api/games/{game}')")["opponents"]
    num_players = make_game(game).num_players
    bot = next((name for name in offered[1:] if "search" not in name), "random")
    others = [bot] * (num_players - 1)
    shown, end, replies, spent = page.evaluate(PLAY, [game, ["person", *others], 11])
    session = SeatSession(game, 0, others, prompt=links.PROMPT)
    session.reset(seed=11)
    for text, legal, reply in shown:
        assert session.game.observe(session.state, 0) == text
        assert session.info()["legal"] == legal
        session.step(reply)
    assert session.game.observe(session.state, 0) == end
    assert [views.action_text(session.game, turn) for turn in session.turns] == replies
    print(f"{game} against {bot}: {spent:.1f} ms a move")


def test_regret_and_the_equilibrium_come_after_the_move(page) -> None:
    PAGES.begin(page, "leduc_poker", "me", "random")
    assert page.is_hidden("#review")
    PAGES.first_move(page)
    assert page.inner_text("#values") == ""
    page.click("#review")
    page.wait_for_selector("#values table")
    view = page.evaluate("state.view")
    saved = {**view["saved"]}
    number = view["own_turns"][0]
    shown = page.evaluate(
        f"ask(`/api/tables/${{state.view.table}}/review?turn={number}`)"
    )
    assert shown == links.values_in(saved, number)
    assert "an equilibrium" in page.inner_text("#values")


def test_a_game_outlives_a_reload_and_its_link_is_replayed(page, address) -> None:
    PAGES.begin(page, "tic_tac_toe", "me", "random")
    PAGES.move(page, lambda: page.click("button[aria-label='b2']"))
    before = PAGES.observed(page)
    page.reload()
    page.wait_for_selector("#scene button", timeout=120_000)
    assert PAGES.observed(page) == before
    while not PAGES.over(page):
        PAGES.first_move(page)
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    link, first = page.input_value("#link"), page.inner_text("#turn")
    assert "#record=" in link
    page.evaluate("location.hash = ''")
    page.wait_for_selector("#home:not([hidden])")
    page.goto(link)
    page.wait_for_selector("#replay:not([hidden])")
    assert page.inner_text("#turn") == first


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, axe, scheme) -> None:
    page.emulate_media(color_scheme=scheme)
    PAGES.nothing_serious(page, axe)
    for game, seats in (
        ("werewolf", ["me", *["random"] * 5]),
        ("tic_tac_toe", ["me", "random"]),
        ("leduc_poker", ["me", "random"]),
    ):
        page.evaluate("location.hash = ''")
        page.wait_for_selector("#home:not([hidden])")
        PAGES.begin(page, game, *seats)
        PAGES.nothing_serious(page, axe)
    PAGES.first_move(page)
    page.click("#review")
    page.wait_for_selector("#values p")
    PAGES.nothing_serious(page, axe)


def test_a_move_answers_within_100_ms(page) -> None:
    spent = [
        page.evaluate(PLAY, ["tic_tac_toe-v0", ["person", "random"], seed])[3]
        for seed in range(5)
    ]
    print(f"{min(spent):.1f} to {max(spent):.1f} ms a move")
    assert min(spent) < 100  # the others may have waited for other processes
