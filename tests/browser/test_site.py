"""The documentation's site, as `make docs` builds it."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SITE = Path(__file__).parents[2] / "site"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    if not SITE.exists():
        pytest.skip("the site is not built: run make docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.route(lambda url: not url.startswith(address), lambda route: route.abort())
    page = context.new_page()
    yield page
    context.close()


def test_every_page_is_reached_and_fits_a_phone_without_errors(page, address):
    troubles, wide = [], {}
    page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))
    page.on(
        "response",
        lambda got: (
            troubles.append(f"{page.url}: {got.url}") if got.status >= 400 else 0
        ),
    )
    waiting, seen = [address], {address}
    while waiting:
        page.goto(waiting.pop())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[page.url] = width
        for link in page.evaluate(
            "[...document.links].map(a => a.href.split('#')[0].replace(/index.html$/, ''))"
        ):
            if link.startswith(address) and link not in seen and link.endswith("/"):
                seen.add(link)
                waiting.append(link)
    assert troubles == []
    assert wide == {}
    built = {p.parent.relative_to(SITE).as_posix() for p in SITE.rglob("index.html")}
    reached = {link.removeprefix(address).strip("/") or "." for link in seen}
    assert built - reached == set()


def test_the_gallery_filters_games(page, address):
    page.goto(f"{address}reference/gallery/")
    cards = page.locator(".gallery .card")
    everything = cards.count()
    page.select_option("select[name=kind]", "cooperative")
    shown = [c for c in cards.all() if c.is_visible()]
    assert 5 < len(shown) < everything
    assert all("cooperative" in card.inner_text() for card in shown)


def test_search_finds_a_public_name(page, address):
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("exploitability")
    page.wait_for_selector("a[href*='evaluate']", timeout=10_000)
