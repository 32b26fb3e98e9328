"""Checks a game of each family of TextArena's, and writes the results.

Each game is checked by 2 random episodes in its own process, with a time limit. Writes
`docs/textarena.md`, the families that break a rule to `textarena_refused.json`, and those that
pass to `textarena_passed.json`. `from_textarena` reads both. That function finds out by itself if a
game does not start.

    python tests/adapters/textarena/survey.py --seconds 20
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import platform
import random
import re
import resource
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from textarena.envs.registration import ENV_REGISTRY

from arena_envs.testing import BrokenPromise, draw_sample, environment, rules, texts
from arena_wrappers.adapters import UnsupportedGame
from arena_wrappers.adapters.textarena import (
    PASSED,
    REFUSED,
    TextArenaGame,
    family_of,
)

PAGE = Path(__file__).parents[3] / "docs" / "textarena.md"

FORK = multiprocessing.get_context("fork")  # keeps the imports

# all of the kit but what needs `resample`, which these games lack
CHECKS = (
    rules.check_actions,
    rules.check_returns,
    texts.check_texts,
    texts.check_parse,
    texts.check_hostile_texts,
    rules.check_forfeit,
    environment.check_pettingzoo,
    environment.check_seeds,
    environment.check_copies,
    environment.check_replay,
)
NOTES = {"KuhnPoker": " in form; pays other than Kuhn poker, see above"}  # by family
UNLISTED = "a seat that is to move has a legal action"

TEXT = """# TextArena's games

`arena_wrappers.adapters.textarena.from_textarena(ID)` makes one of TextArena's games playable here.
`python tests/adapters/textarena/survey.py` wrote this page with TextArena {version} in Python {python}.
It checked one id of each family (all ids with the same name before `-v0`): 2 random episodes of at
most 30 turns, and at most {seconds} CPU seconds. Games with a `SyntaxError` may start in Python 3.12.

{counts}

"passes" is about form: the game keeps the contract of `check_game`. Nothing compares its rules or payments with those of
the game that it is named after; `arena credit audit-game` does so for your games, and `python docs/audit/games.py` for seven of these:
no difference in `TicTacToe-v0`, `ConnectFour-v0`, `Nim-v0` and `Othello-v0`. In `KuhnPoker-v0` of 0.7.4 bets add nothing to
the pot: a bet that is called pays 1 instead of 2, which is wrong in 12 of the 30 combinations of deal and line.
TextArena's main branch (commit 6dfb577) has mended it. `Breakthrough-v0` allows a diagonal step only to capture, as its prompt says, and
`IteratedRockPaperScissors-v0` pays 1 at the end to whoever won more rounds. Here `kuhn_poker` is compared with OpenSpiel's.

"breaks the rule" names a rule of the conformance kit (`check_game`) that does not hold in the game.
"its texts list no action": in some position the game takes no text in brackets that the player has read, also
with other numbers and squares, and no plain words.

| game | result |
|---|---|
"""


def check(name: str) -> str:
    """ "passes", or why the game does not."""
    warnings.simplefilter("ignore")
    try:
        game = TextArenaGame(name, max_turns=30)
        rules.check_facts(game)
        sample = draw_sample(game, 2, 0)
        for one in CHECKS:
            one(sample)
    except UnsupportedGame as error:
        return f"does not start: {str(error).partition(' here: ')[2]}"
    except BrokenPromise as error:
        rule = str(error).split("; got ")[0]
        return why_stuck(game) if rule == UNLISTED else f"breaks the rule: {rule}"
    except Exception as error:  # of the game's own code, which may raise anything
        return f"raises {type(error).__name__}: {error}"
    return "passes"


def why_stuck(game: TextArenaGame) -> str:
    """What TextArena raises where a random episode has no legal action."""
    for seed in range(10):
        state, rng = game.apply(game.initial_state(), seed), random.Random(seed)
        while legal := game.legal_actions(state):
            state = game.apply(state, rng.choice(legal))
        position = game.position(state)
        if not position.is_over and position.raised is not None:
            return f"its texts list no action, or raises: {position.raised}"
    return "its texts list no action"


def check_apart(name: str, seconds: int) -> str:
    """`check` in its own process, because games keep global state and may take long."""
    ours, theirs = FORK.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        with contextlib.redirect_stdout(io.StringIO()):
            found = check(name)
        found = re.sub(r"\S*/site-packages/", "", found)
        theirs.send(" ".join(found.split())[:200])

    process = FORK.Process(target=work)
    process.start()
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        return f"not checked: takes more than {seconds} CPU seconds"
    return ours.recv() if ours.poll() else "crashes the process"


def starts(name: str) -> bool:
    """Whether the game starts here."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            TextArenaGame(name)
    except UnsupportedGame:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20, help="CPU time of each game")
    parser.add_argument("--jobs", type=int, default=1, help="games at a time")
    args = parser.parse_args()
    first: dict[str, str] = {}
    for name in ENV_REGISTRY:
        if not name.startswith("arena/"):
            first.setdefault(family_of(name), name)
    found = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        families = sorted(first)
        results = pool.map(lambda f: check_apart(first[f], args.seconds), families)
        for family, result in zip(families, results, strict=True):
            found[family] = result
            print(f"{first[family]}: {result}", flush=True)
    unknown = {f for f, what in found.items() if what.startswith("not checked")}
    passing = {f for f, what in found.items() if what == "passes"}
    refused = {f: w for f, w in found.items() if f not in unknown | passing}
    broken = {f: what for f, what in refused.items() if starts(first[f])}
    REFUSED.write_text(json.dumps(broken, indent=1) + "\n")
    PASSED.write_text(json.dumps(sorted(passing), indent=1) + "\n")
    counts = (
        f"{len(passing)} pass, {len(refused)} are refused with the reason given here, and "
        f"{len(unknown)} were not checked. `from_textarena` takes those that were not checked, with a warning."
    )
    text = TEXT.format(
        version=version("textarena"),
        python=platform.python_version(),
        seconds=args.seconds,
        counts=counts,
    )
    rows = (
        f"| `{first[f]}` | {w.replace('|', ' ')}{NOTES.get(f, '')} |\n"
        for f, w in found.items()
    )
    PAGE.write_text(text + "".join(rows))


if __name__ == "__main__":
    main()
