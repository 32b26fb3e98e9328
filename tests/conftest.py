"""Settings of all tests."""

import importlib
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from arena_envs import make_game, registration

# The same examples in every run; no time limit, as the machine may be busy.
settings.register_profile(
    "arena", derandomize=True, database=None, deadline=None, max_examples=50
)
settings.load_profile("arena")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "of tests with a game's id as parameter, only those of representative games"
    parser.addoption("--quick", action="store_true", help=text)


def pytest_configure() -> None:
    # a shell's job in the background ignores the Ctrl-C that tests send
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ids_of(item: pytest.Item) -> set[str]:
    """The ids of registered games among the parameters of a test."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return {value for value in params.values() if isinstance(value, str)} & (
        registration._entries.keys()
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not config.getoption("--quick"):
        return
    games = runpy.run_path(str(Path(__file__).with_name("representative.py")))
    wanted = {id for id, _ in games["REPRESENTATIVE"].values()}
    left = [item for item in items if not ids_of(item) <= wanted]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if ids_of(item) <= wanted]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that has a game without its extra as a parameter, by id."""
    for id in ids_of(item):
        if registration._entries[id].extra:
            try:
                make_game(id)
            except ImportError as error:
                pytest.skip(str(error))


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what is fitted and cached out of the user's folder, also of commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARENA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def forget_modules(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forgets the modules that a test imported from its folder, as others name theirs alike."""
    if "tmp_path" not in request.fixturenames:
        yield
    else:
        folder = f"{request.getfixturevalue('tmp_path')}/"
        yield
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(folder):
                del sys.modules[name]


@pytest.fixture
def elsewhere() -> Callable[..., AbstractContextManager[None]]:
    """Makes contexts in which another process, number 7 on host, has a lock."""
    fcntl = pytest.importorskip("fcntl")

    @contextmanager
    def hold(what: Path, *, is_folder: bool = False) -> Iterator[None]:
        path = what / ".lock" if is_folder else what.with_name(f".{what.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:  # another open file, as of another process
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write("process 7 on host")
            file.flush()
            yield
        path.unlink()

    return hold


@pytest.fixture
def heavy_policy(tmp_path, monkeypatch):
    """A module with a policy `Heavy`, whose list `made` has every object that was made of it."""
    (tmp_path / "heavy_policy.py").write_text(
        "from arena_wrappers import RandomPolicy\n"
        "made = []\n"
        "class Heavy(RandomPolicy):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        made.append(self)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("heavy_policy")
