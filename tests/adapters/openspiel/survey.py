"""Checks all of OpenSpiel's games with the conformance kit, and writes the results.

Each game is checked by 3 random episodes in its own process, with a time limit. Writes
`docs/openspiel.md`, and the games that break a rule of the kit to `openspiel_refused.json`, which
`from_openspiel` reads. That function finds out by itself if a game lacks something.

    python tests/adapters/openspiel/survey.py --seconds 4
"""

import argparse
import json
import multiprocessing
import resource
import signal
import warnings
from importlib.metadata import version
from pathlib import Path

import pyspiel

from arena_envs.testing import BrokenPromise, check_game
from arena_wrappers.adapters import UnsupportedGame
from arena_wrappers.adapters.openspiel import REFUSED, supported

PAGE = Path(__file__).parents[3] / "docs" / "openspiel.md"

FORK = multiprocessing.get_context("fork")  # keeps the imports

CRASH = "crashes the process"

FILES = {
    "efg_game": "kuhn.efg",
    "nfg_game": "prisoners.nfg",
}  # of games without defaults

TEXT = """# OpenSpiel's games

`arena_wrappers.adapters.openspiel.from_openspiel(NAME)` makes one of OpenSpiel's games playable here.
`python tests/adapters/openspiel/survey.py` wrote this page with OpenSpiel {version}: 3 random
episodes of each game with default parameters, at most {seconds} CPU seconds each.

{counts}

`efg_game` and `nfg_game` need a file: `from_openspiel("efg_game(filename=GAME.efg)")`. The rules of a
game of at most 150 states tell its whole tree, as the name of such a game says nothing.

"breaks the rule" names a rule of the conformance kit (`check_game`) that does not hold in the game.

| game | result |
|---|---|
"""


def check(name: str) -> str:
    """ "passes", or why the game does not."""
    warnings.simplefilter("ignore")
    try:
        file = FILES.get(name)
        full = f"{name}(filename={Path(__file__).with_name(file)})" if file else name
        check_game(supported(full), num_episodes=3, needs_page=False)
    except UnsupportedGame as error:
        return str(error).partition(": ")[2]
    except BrokenPromise as error:
        rule = str(error).partition("breaks a rule: ")[2].split("; got ")[0]
        return f"breaks the rule: {rule}"
    return "passes"


def check_apart(name: str, seconds: int) -> str:
    """`check` in its own process, because OpenSpiel can crash the process."""
    ours, theirs = FORK.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        theirs.send(" ".join(check(name).split())[:300])

    process = FORK.Process(target=work)
    process.start()
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        return f"not checked: takes more than {seconds} CPU seconds"
    return ours.recv() if ours.poll() else CRASH


def loads(name: str) -> bool:
    """Whether `from_openspiel` takes the game if no list refuses it."""
    try:
        supported(name)
    except UnsupportedGame:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=int, default=4, help="CPU time of each game")
    args = parser.parse_args()
    REFUSED.write_text("{}\n")
    found = {}
    for name in sorted(pyspiel.registered_names()):
        found[name] = check_apart(name, args.seconds)
        print(f"{name}: {found[name]}", flush=True)
    unknown = {name for name, what in found.items() if what.startswith("not checked")}
    passing = {name for name, what in found.items() if what == "passes"}
    refused = {n: w for n, w in found.items() if n not in unknown | passing}
    broken = {n: what for n, what in refused.items() if what == CRASH or loads(n)}
    REFUSED.write_text(json.dumps(broken, indent=1) + "\n")
    counts = (
        f"{len(passing)} pass, {len(refused)} are refused with the reason given here, and "
        f"{len(unknown)} were not checked. `from_openspiel` takes these, too."
    )
    text = TEXT.format(
        version=version("open_spiel"), seconds=args.seconds, counts=counts
    )
    rows = (f"| `{n}` | {w.replace('|', ' ')} |\n" for n, w in found.items())
    PAGE.write_text(text + "".join(rows))


if __name__ == "__main__":
    main()
