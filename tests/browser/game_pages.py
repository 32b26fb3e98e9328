"""What tests do on a page where games are played: the server's, and that of the site."""

from typing import Any

import pytest


def begin(page: Any, game: str, *seats: str) -> None:
    """Starts a game from the gallery; `me` or an opponent for each seat."""
    page.fill("#filter", game)
    page.click(f"#gallery a[href^='#game={game}-v']")
    page.wait_for_selector(f"#facts:has-text('{len(seats)} player')")
    page.wait_for_selector(
        f"#seat{len(seats) - 1} option[value='{seats[-1]}']", state="attached"
    )
    for number, who in enumerate(seats):
        page.select_option(f"#seat{number}", who)
    page.click("#start")
    shown = "#table" if "me" in seats else "#replay"
    page.wait_for_selector(f"{shown}:not([hidden])", timeout=20_000)


def over(page: Any) -> bool:
    return bool(page.inner_text("#status").startswith("The game is over"))


def observed(page: Any) -> str:
    return str(page.evaluate("document.querySelector('#observed').textContent"))


def move(page: Any, act: Any) -> None:
    before, status = observed(page), page.inner_text("#status")
    act()
    for _ in range(400):
        is_changed = observed(page) != before or page.inner_text("#status") != status
        if is_changed and page.evaluate(
            "state.view.yours || state.view.seats[state.view.to_move] === 'person' || state.view.done"
        ):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"nothing followed the move: {page.inner_text('main')}")


def first_move(page: Any) -> None:
    """A move: a button, or a click on the board; in a language game words, sent with Enter."""

    def act() -> None:
        moves = page.locator("#buttons button, #scene button")
        moves.first.click()
        if page.locator("#scene .picked").count():  # a piece, which wants a target
            page.evaluate("send(state.view.legal[0])")
        if page.input_value("#text"):
            page.press("#text", "Enter")

    move(page, act)


def fits_the_phone(page: Any) -> None:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, f"{width} pixels wide"


def nothing_serious(page: Any, axe: str) -> None:
    """Fails if axe-core finds something serious."""
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((found) => found.violations)")
    serious = [
        (one["id"], [node["html"] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
