"""What tests do on a page where games are played: the server's, and that of the site."""

from typing import Any

import pytest


def begin(page: Any, game: str, *seats: str) -> None:
    """Starts a game; `me` or an opponent for each seat that is not as offered."""
    page.fill("#filter", game)
    ids = page.evaluate(
        "[...document.querySelectorAll('#game option')].map(o => o.value)"
    )
    page.select_option("#game", next(id for id in ids if id.startswith(f"{game}-v")))
    page.wait_for_selector(f"#facts:has-text('{len(seats)} player')")
    page.wait_for_selector(
        f"#seat{len(seats) - 1} option[value='{seats[-1]}']", state="attached"
    )
    for number, who in enumerate(seats):
        page.select_option(f"#seat{number}", who)
    page.click("#new button")
    page.wait_for_selector("#table:not([hidden])", timeout=20_000)


def over(page: Any) -> bool:
    return bool(page.inner_text("#status").startswith("The game is over"))


def observed(page: Any) -> str:
    return str(page.evaluate("document.querySelector('#observed').textContent"))


def move(page: Any, act: Any) -> None:
    before, status = observed(page), page.inner_text("#status")
    act()
    for _ in range(400):
        if observed(page) != before or page.inner_text("#status") != status:
            return
        page.wait_for_timeout(25)
    pytest.fail(f"nothing followed the move: {page.inner_text('main')}")


def first_move(page: Any) -> None:
    """The first move: a button; in a language game its words, sent with Enter."""

    def act() -> None:
        page.locator("#buttons button").first.click()
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
