"""Checks all games of OpenSpiel's with the conformance kit, and writes what was found.

Each game is checked by 3 random episodes in a process of its own, with a time limit. Writes
`docs/openspiel.md`, and the games that break a rule of the kit to `refused.json` beside
`from_openspiel`, which refuses them; it finds by itself what others lack.

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

from arena_envs.testing import check_game
from arena_envs.testing.sample import BrokenRule
from arena_wrappers.adapters.openspiel import UnsupportedGame, incoming

PAGE = Path(__file__).parents[3] / "docs" / "openspiel.md"
REFUSED = Path(incoming.__file__).with_name("refused.json")

FORK = multiprocessing.get_context("fork")  # keeps the imports

CRASH = "ends the process"

TEXT = """# Games of OpenSpiel's

`arena_wrappers.adapters.openspiel.from_openspiel(NAME)` makes a game of OpenSpiel's one of ours.
`python tests/adapters/openspiel/survey.py` wrote this page with OpenSpiel {version}: 3 random
episodes of each game with default parameters, at most {seconds} CPU seconds each.

{counts}

| game | found |
|---|---|
"""


def check(name: str) -> str:
    """ "passes", or why the game does not."""
    warnings.simplefilter("ignore")
    try:
        game = incoming.supported(name)
        check_game(game, num_episodes=3, needs_page=False)
    except UnsupportedGame as error:
        return str(error).partition(": ")[2]
    except BrokenRule as error:
        return str(error).partition("breaks a rule: ")[2].split("; got ")[0]
    return "passes"


def check_apart(name: str, seconds: int) -> str:
    """`check` in a process of its own, as OpenSpiel may end it."""
    ours, theirs = FORK.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        theirs.send(" ".join(check(name).split())[:300])

    process = FORK.Process(target=work)
    process.start()
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        return f"was not checked in {seconds} CPU seconds"
    return ours.recv() if ours.poll() else CRASH


def loads(name: str) -> bool:
    """Whether `from_openspiel` takes the game if no list refuses it."""
    try:
        incoming.supported(name)
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
    unknown = {name for name, what in found.items() if what.startswith("was not")}
    passing = {name for name, what in found.items() if what == "passes"}
    refused = {n: w for n, w in found.items() if n not in unknown | passing}
    broken = {n: what for n, what in refused.items() if what == CRASH or loads(n)}
    REFUSED.write_text(json.dumps(broken, indent=1) + "\n")
    counts = (
        f"{len(passing)} pass, {len(refused)} are refused with the reason given here, and "
        f"{len(unknown)} take longer to check."
    )
    text = TEXT.format(
        version=version("open_spiel"), seconds=args.seconds, counts=counts
    )
    rows = (f"| `{n}` | {w.replace('|', ' ')} |\n" for n, w in found.items())
    PAGE.write_text(text + "".join(rows))


if __name__ == "__main__":
    main()
