"""`arena serve web` in Chromium: whole games, two browsers, reloads, restarts, bad clients."""

import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra web is not installed")
pytestmark = pytest.mark.slow

# what tests do on a page where games are played
PAGES = runpy.run_path(str(Path(__file__).with_name("game_pages.py")))
begin, first_move, move = PAGES["begin"], PAGES["first_move"], PAGES["move"]
fits_the_phone, nothing_serious = PAGES["fits_the_phone"], PAGES["nothing_serious"]
observed, over = PAGES["observed"], PAGES["over"]
PHONE = {"viewport": {"width": 390, "height": 800}}
LOAD = "Failed to load resource"  # what Chromium says of a status of 400 or more


class Served:
    """`arena serve web` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self) -> None:
        options = [
            "--port",
            str(self.port),
            "--file",
            str(self.folder / "games.sqlite"),
        ]
        command = [sys.executable, "-m", "arena_trainers", "serve", "web", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("the server has not started")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("web"))
    yield server
    server.stop()


@pytest.fixture
def visit(browser, served) -> Iterator[Any]:
    """Opens a browser of its own at the server; errors of the page fail the test."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def opened(link: str = "", *, is_refused: bool = False, **options: Any) -> Any:
        context = browser.new_context(**options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        # a first visit makes no request that is refused, unless its link is bad
        is_loaded = [True] if is_refused else []
        page.on(
            "console",
            lambda said: (
                None if LOAD in said.text and is_loaded else troubles.append(said.text)
            ),
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(served.url + link)
        page.wait_for_selector("body[data-ready=yes]")
        is_loaded.append(True)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not troubles


@pytest.mark.parametrize(
    ("game", "seats"),
    [
        ("leduc_poker", ["me", "random"]),
        ("goofspiel", ["me", "random"]),
        ("mini_hanabi", ["me", "hanabi_convention"]),
        ("taboo", ["me", "taboo:honest"]),
        ("deal_or_no_deal", ["me", "dealer:honest"]),
        ("werewolf", ["me", *["werewolf_player:honest"] * 5]),
        ("frozen_lake", ["me"]),
        ("dots_and_boxes", ["me", "minimax"]),
        ("rock_paper_scissors", ["me", "cfr"]),
    ],
)
def test_a_whole_game_is_played_on_a_phone(visit, game, seats) -> None:
    page = visit(**PHONE)
    fits_the_phone(page)
    begin(page, game, *seats)
    for _ in range(120):  # Frozen Lake may take 100
        fits_the_phone(page)
        if over(page):
            break
        first_move(page)
    assert over(page)
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    fits_the_phone(page)
    assert "Reward" in page.inner_text("#worth")


def test_squares_are_clicked(visit) -> None:
    page = visit()
    begin(page, "tic_tac_toe", "me", "minimax")
    move(page, lambda: page.click("button[aria-label='b2']"))
    assert "b2, X" in page.evaluate(
        "[...document.querySelectorAll('.cell')].map(c => c.getAttribute('aria-label')).join(';')"
    )
    begin_again = page.url
    page.goto(f"{begin_again.partition('#')[0]}#")
    page.wait_for_selector("#home:not([hidden])")
    begin(page, "breakthrough", "me", "random")
    page.click("button[aria-label^='b7']")
    assert page.locator("button.picked").count() == 1
    moves = page.locator("#buttons button").all_inner_texts()
    assert moves
    assert all("b7" in text for text in moves)
    move(page, lambda: page.click(f"button[aria-label^='{moves[0][-2:]}']"))
    assert page.locator("#buttons button").count() == 0
    assert page.locator("#scene button").count() > 5


def test_keys_play_and_the_focus_follows(visit) -> None:
    page = visit()
    begin(page, "kuhn_poker", "me", "cfr")
    move(page, lambda: page.keyboard.press("2"))
    while not over(page):
        focus = page.evaluate("document.activeElement.closest('#buttons') !== null")
        assert focus
        move(page, lambda: page.keyboard.press("Enter"))


def test_a_word_is_typed(visit) -> None:
    page = visit(**PHONE)
    begin(page, "wordle", "me")
    assert page.locator("#buttons button").count() == 12
    word = page.locator("#buttons button").last.inner_text()
    page.fill("#text", word)
    assert page.locator("#buttons button").all_inner_texts() == [word]
    move(page, lambda: page.press("#text", "Enter"))
    fits_the_phone(page)
    page.fill("#text", "zzzzz")
    page.press("#text", "Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert "legal action" in page.inner_text("#problem")


def test_regret_comes_after_the_move_on_request(visit) -> None:
    page = visit()
    begin(page, "leduc_poker", "me", "random")
    assert page.is_hidden("#review")
    first_move(page)
    assert page.inner_text("#values") == ""
    page.click("#review")
    page.wait_for_selector("#values table", timeout=60_000)
    rows = page.locator("#values tr").all_inner_texts()
    assert sum("(played)" in row for row in rows) == 1
    shares = [float(x) for x in re.findall(r"([\d.]+) %", page.inner_text("#values"))]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    while not over(page):
        first_move(page)
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    page.click("text=Regret and best mix")
    page.wait_for_selector("#worth table")
    assert "advantage" in page.inner_text("#worth")


def test_two_browsers_meet_by_link_and_each_sees_its_seat(visit, served) -> None:
    one, two = visit(), visit()
    begin(one, "kuhn_poker", "me", "person")
    link = one.input_value("#invites input")
    two.goto(link)
    two.wait_for_selector("#table:not([hidden])")
    assert "invite" not in two.url
    assert "You are player_0" in observed(one)
    assert "You are player_1" in observed(two)
    assert two.inner_text("#status") == "Waiting for Blue."
    one.click("#buttons button:has-text('bet')")
    two.wait_for_selector("#buttons button")
    two.reload()
    two.wait_for_selector("#buttons button")
    two.click("#buttons button:has-text('pass')")
    two.wait_for_selector("#credit:not([hidden])")
    one.wait_for_selector("#credit:not([hidden])")
    assert (
        one.inner_text("#status") == "The game is over. You won, 1 to \N{MINUS SIGN}1."
    )
    third = visit(link.removeprefix(served.url), is_refused=True)
    assert "This link was used" in third.inner_text("#problem")


def test_a_game_outlives_a_reload_and_a_restart(visit, served) -> None:
    page = visit()
    begin(page, "tic_tac_toe", "me", "minimax")
    first_move(page)
    before = observed(page)
    page.reload()
    page.wait_for_selector("#table:not([hidden])")
    assert observed(page) == before
    served.stop()
    page.locator("#scene button").first.click()
    page.wait_for_selector("#problem:not([hidden])")
    assert "the game is kept" in page.inner_text("#problem")
    served.start()
    while not over(page):
        first_move(page)
    assert page.is_hidden("#problem")


def test_a_shared_link_replays_the_game_in_another_browser(visit, served) -> None:
    page = visit()
    begin(page, "kuhn_poker", "me", "random")
    while not over(page):
        first_move(page)
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    other = visit(page.input_value("#link").removeprefix(served.url))
    other.wait_for_selector("#replay:not([hidden])")
    first = other.inner_text("#turn")
    other.keyboard.press("ArrowRight")
    assert other.inner_text("#turn") != first
    assert "random, orange" in first + other.inner_text("#turn")
    broken = visit("#record=zzzz")
    assert "This link is broken" in broken.inner_text("#problem")


def test_a_game_over_talks_plainly_and_offers_more(visit) -> None:
    page = visit(**PHONE)
    begin(page, "kuhn_poker", "me", "random")
    assert page.locator("#players li").all_inner_texts() == [
        "You, blue",
        "random, orange",
    ]
    while not over(page):
        first_move(page)
    assert re.search("over. You (won|lost), ", page.inner_text("#status"))
    page.click("#share")
    page.wait_for_selector("#shared:not([hidden])")
    assert "#record=" in page.input_value("#shared")
    table = page.url
    page.click("#swap")
    page.wait_for_selector("#players li:has-text('You, orange')")
    assert page.url != table
    page.goto(f"{page.url.partition('#')[0]}#")
    page.wait_for_selector("#home:not([hidden])")
    assert page.locator("#recent a").count() == 2
    page.locator("#recent a").last.click()
    page.wait_for_selector("#over:not([hidden])")


def test_two_policies_are_watched_with_their_words(visit, wait_until) -> None:
    page = visit(reduced_motion="reduce")
    begin(page, "tic_tac_toe", "random", "minimax")
    assert page.inner_text("#run") == "Run"  # nothing moves by itself
    page.click("#run")
    wait_until(page, "state.replay.turns.length > 1")
    assert "random, blue" in page.inner_text("#words")
    assert "minimax, orange" in page.inner_text("#words")
    wait_until(page, "at('turn').textContent.startsWith('The end: random, blue')")
    assert page.evaluate("state.record.seats") == ["random", "minimax"]


def test_a_column_a_card_and_a_chip_are_clicked(visit) -> None:
    page = visit()
    for game, opponent, selector in (
        ("connect_four", "random", "#scene button[aria-label^='d']"),
        ("goofspiel", "random", "#scene button.card"),
        ("nim", "minimax", "#scene button.item"),
    ):
        page.goto(f"{page.url.partition('#')[0]}#")
        page.wait_for_selector("#home:not([hidden])")
        begin(page, game, "me", opponent)
        assert page.locator("#buttons button").count() == 0
        assert page.is_hidden("#typing")
        move(page, lambda selector=selector: page.locator(selector).last.click())


HOSTILE = """async (table) => {
  const ask = async (path, body) => {
    const given = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const answer = await fetch(path, body ? given : {});
    return [answer.status, Object.keys(await answer.json())];
  };
  const path = `/api/tables/${table}`;
  return [await ask(path), await ask(`${path}/review?turn=0`), await ask(`${path}/record`),
    await ask(`${path}/join`, { invite: "guess" }), await ask(`${path}/reply`, { text: "bet", turn: 0, seat: 0 })];
}"""


def test_a_hostile_page_gets_nothing(visit, served, tmp_path) -> None:
    page, hostile = visit(), visit()
    begin(page, "kuhn_poker", "me", "random")
    table = page.url.partition("table=")[2]
    assert hostile.evaluate(HOSTILE, table) == [[403, ["error"]]] * 5
    before = observed(page)
    (tmp_path / "evil.html").write_text(
        f"<form method=post enctype=text/plain action='{served.url}api/tables/{table}/reply'>"
        """<input name='{"text":"bet","turn":0,"x":"' value='"}'></form>"""
        f"<script>fetch('{served.url}api/tables/{table}', {{credentials: 'include'}})"
        ".catch(() => {}).finally(() => document.forms[0].submit())</script>"
    )
    evil = page.context.new_page()
    evil.goto((tmp_path / "evil.html").as_uri())
    evil.wait_for_url(f"{served.url}**")
    assert "error" in evil.inner_text("body")
    page.reload()
    page.wait_for_selector("#buttons button")
    assert observed(page) == before


def test_words_of_a_player_are_no_markup(visit) -> None:
    one, two = visit(), visit()
    begin(one, "bargaining", "me", "person")
    two.goto(one.input_value("#invites input"))
    two.wait_for_selector("#table:not([hidden])")
    one.fill(
        "#text", "<img src=x onerror=\"document.title='hacked'\"> <b>bold</b>\noffer 50"
    )
    move(one, lambda: one.press("#text", "Enter"))
    two.wait_for_selector("#buttons button")
    assert "bold" in two.inner_text("#scene")
    assert two.locator("#scene img").count() == 0
    assert "hacked" not in two.title()


def test_a_move_answers_within_100_ms(visit) -> None:
    page = visit()
    begin(page, "tic_tac_toe", "me", "random")
    spent = page.evaluate(
        """async () => {
          const found = [];
          for (let i = 0; i < 9 && !state.view.done; i++) {
            const start = performance.now();
            await send(state.view.legal[0]);
            found.push(performance.now() - start);
          }
          return found;
        }"""
    )
    assert min(spent) < 100  # the others may have waited for other processes


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, axe, scheme) -> None:
    page = visit(bypass_csp=True, color_scheme=scheme, **PHONE)

    def check() -> None:
        nothing_serious(page, axe)

    check()
    page.click("#gallery a")
    page.wait_for_selector("#seat1")
    check()
    for game, seats in (
        ("tic_tac_toe", ["minimax", "random"]),
        ("tic_tac_toe", ["me", "random"]),
        ("leduc_poker", ["me", "random"]),
        ("hex", ["me", "random"]),
        ("mini_hanabi", ["me", "random"]),
        ("bargaining", ["me", "person"]),
        ("werewolf", ["me", *["random"] * 5]),
    ):
        page.goto(page.url.partition("#")[0] + "#")
        page.wait_for_selector("#home:not([hidden])")
        begin(page, game, *seats)
        check()
    page.goto(page.url.partition("#")[0] + "#")
    page.wait_for_selector("#home:not([hidden])")
    begin(page, "kuhn_poker", "me", "random")
    while not over(page):
        first_move(page)
    page.click("#review")
    page.wait_for_selector("#values p", timeout=60_000)
    check()
    page.click("#credit")
    page.wait_for_selector("#replay:not([hidden])")
    check()


def test_a_link_names_the_first_opponent(visit):
    """As `arena play GAME --web --against POLICY` prints it; an unknown game shows all."""
    page = visit("#game=kuhn_poker-v0&against=random")
    page.wait_for_selector("#seat1")
    assert page.eval_on_selector("#seat1", "select => select.value") == "random"
    page.goto(page.url.partition("#")[0] + "#game=none")
    page.wait_for_selector("#gallery li")
    assert "No game has this name" in page.inner_text("body")
