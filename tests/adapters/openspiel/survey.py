"""Checks all games of OpenSpiel's with the conformance kit, and writes what was found.

Each game is checked by 5 random episodes in a process of its own, with a time limit. Writes
`docs/openspiel.md`, and the games that fail with their reasons to `refused.json` beside
`from_openspiel`, which refuses them.

    python tests/adapters/openspiel/survey.py --seconds 10
"""

import argparse
import json
import resource
import signal
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import pyspiel

from arena_envs.testing import check_game
from arena_envs.testing.sample import BrokenRule
from arena_wrappers.adapters.openspiel import UnsupportedGame, incoming

PAGE = Path(__file__).parents[3] / "docs" / "openspiel.md"
REFUSED = Path(incoming.__file__).with_name("refused.json")

TEXT = """# Games of OpenSpiel's

`arena_wrappers.adapters.openspiel.from_openspiel(NAME)` makes a game of OpenSpiel's one of ours.
`python tests/adapters/openspiel/survey.py` wrote this page with OpenSpiel {version}: 5 random
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
        check_game(game, num_episodes=5, needs_page=False)
    except UnsupportedGame as error:
        return str(error).partition(": ")[2]
    except BrokenRule as error:
        return str(error).partition("breaks a rule: ")[2].split("; got ")[0]
    return "passes"


def check_apart(name: str, seconds: int) -> str:
    """`check` in a process of its own, as OpenSpiel may end it."""
    command = [sys.executable, __file__, "--game", name, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGXCPU:
        return f"was not checked in {seconds} CPU seconds"
    lines = done.stdout.splitlines()
    return lines[-1] if lines and not done.returncode else "ends the process"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="CPU time of each game")
    parser.add_argument("--game", help=argparse.SUPPRESS)  # of a child process
    args = parser.parse_args()
    if args.game:
        resource.setrlimit(resource.RLIMIT_CPU, (args.seconds, args.seconds + 5))
        print(" ".join(check(args.game).split())[:300])
        return
    REFUSED.write_text("{}\n")
    found = {}
    for name in sorted(pyspiel.registered_names()):
        found[name] = check_apart(name, args.seconds)
        print(f"{name}: {found[name]}", flush=True)
    unknown = {name for name, what in found.items() if what.startswith("was not")}
    passing = {name for name, what in found.items() if what == "passes"}
    refused = {n: w for n, w in found.items() if n not in unknown | passing}
    REFUSED.write_text(json.dumps(refused, indent=1) + "\n")
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
