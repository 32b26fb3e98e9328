"""Pages in a real browser: the Chromium of the system, driven by Playwright.

`make browser` runs these tests in an environment of their own. Without Playwright or Chromium
they are skipped.
"""

import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

AXE, PYODIDE = "axe-core@4.14.1", "pyodide@314.0.7"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    api: Any = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: run make browser"
    )
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        # the sandbox does not start for root, as in containers; pages come from these tests
        chromium = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file; at the end of the test, errors and requests of the page fail it."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def opened(path: Path, link: str = "", **options: Any) -> Any:
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        address = path.as_uri()
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(address)
                else troubles.append(request.url)
            ),
        )
        page.goto(f"{address}{link}")
        page.wait_for_selector("body[data-ready=yes]", timeout=20_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def wait_until(browser: Any) -> Callable[..., None]:
    """Waits until an expression is true in a page.

    Playwright's `wait_for_function` polls by `eval`, which the policy of our pages forbids.
    """
    api: Any = pytest.importorskip("playwright.sync_api")

    def wait(page: Any, expression: str) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if page.evaluate(expression):
                    return
            except api.Error:  # the page is being loaded
                page.wait_for_load_state()
            page.wait_for_timeout(50)
        pytest.fail(f"not true within 20 s: {expression}")

    return wait


def unpacked(package: str, folder: Path) -> Path:
    """The files of an npm package, which is not installed."""
    if shutil.which("npm") is None:
        pytest.skip(f"there is no npm to get {package} with")
    command = ["npm", "pack", "--silent", package]
    if subprocess.run(command, cwd=folder, capture_output=True).returncode:
        pytest.skip(f"{package} cannot be had here")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    folder = unpacked(AXE, tmp_path_factory.mktemp("axe"))
    return (folder / "axe.min.js").read_text()


@pytest.fixture(scope="session")
def pyodide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Pyodide."""
    return unpacked(PYODIDE, tmp_path_factory.mktemp("pyodide"))
