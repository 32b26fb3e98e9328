"""Builds `docs/games/language.md`: language games learned by self-play.

    python docs/build_language.py --write

writes the page from `docs/games/language.json`, which `benchmarks/language_rl.py` measures. Without
options the script checks that the page is up to date.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import language_rl as bench  # noqa: E402 # from the folder above
from comparing import interval, read, table  # noqa: E402

PAGE = ROOT / "docs" / "games" / "language.md"
Run = Mapping[str, Any]  # "before" and "after"

TEXT = """# Language games learned by self-play

The tiny model, made on the spot, plays small variants of five language games with itself. The question is what
it can do afterwards with a stranger: a frozen scripted player that did not learn with it, and that
answers for one seat while the model has the other one. `python docs/build_language.py --write` wrote this
page from the runs of

```sh
python benchmarks/language_rl.py
```

on one CPU thread: {num_seeds} seeds (0 to {last_seed}) of each game, {num_steps} optimizer steps of {episodes} episodes.
One run took half a CPU minute. The model first imitates {warm} batches of random legal play, so that it knows the
format and nothing else; *before* is this model. All games have the same options.

Games and options were chosen after five trial runs of seed 0 (120 steps), without a KL term: `taboo` (0.33 → 0.27 with itself), `say_select` with two
balls (0.00 → -0.05) and `referential` with two objects (0.44 → 0.53, interval 0.47 to 0.59) at learning rate 2e-3, `say_select` with
three balls (-0.30 → -0.01) and `referential` with three objects (0.33 → 0.34) at 1e-3. Then the KL term was added, `auction` took the place of
`referential`, and `persuasion` got two rounds instead of four. Below is every run made after that.

## Returns

Mean returns over both seats, before → after self-play. Brackets are the 95 % interval of the return after, from {num_episodes}
episodes with itself and {num_episodes} in each seat with the stranger, on seeds that training does not use. The last column is the
mean change over seeds with its 95 % interval (Student's t, n = {num_seeds}); an interval that contains 0 shows no change.

{returns}
## What this shows

{findings}
{num_seeds} seeds give wide intervals, the variants are tiny, and the model knows no English: a word is a token. It says nothing
about pretrained models.

## Games, commands and replies

The commands are of seed 0. The replies are of the first two episodes of each seed with the stranger in which the model is `player_1`.

{games}"""
FINDINGS = """- **auction**: learned. The return rises from below 0 to above 0 with itself and with the stranger, in every seed.
- **taboo**: not shown. Seed 2 learned a code of its own, which pays with itself and nothing with the stranger. Seed 1 learned
  words that the stranger partly shares, seed 0 nothing. So the return with itself does not measure whether words mean anything.
- **say_select**: no use of words in any seed. With itself the return rises to 0, which quitting pays, and no further.
- **negotiation**: not shown. Seed 0 learned to trade; seeds 1 and 2 ended near 0, the return without a sale.
- **persuasion**: with itself the mean return falls, as the buyer stops buying: in so few rounds talk is cheap. With the stranger nothing is shown.

In self-play the model writes no messages, so the stranger's messages are new to it. Some of its replies to them are illegal, such as `warn`
by the buyer, and forfeit the game. This is part of the low returns with strangers in `say_select` and `persuasion`.
"""


def returns_table(runs: Mapping[str, Mapping[int, Run]]) -> str:
    """A row for each game and partner."""
    rows = []
    for game, by_seed in runs.items():
        for partner in ("self", bench.SETTINGS[game].stranger):
            pairs = [
                (mean(r["before"], partner), mean(r["after"], partner))
                for _, r in sorted(by_seed.items())
            ]
            change = interval([after[0] - before[0] for before, after in pairs])
            rows.append(
                [
                    f"[{game}]({game}.md)",
                    "itself" if partner == "self" else f"`{partner}`",
                    *(
                        f"{b[0]:z.2f} → {a[0]:z.2f} ({a[1]:z.2f} to {a[2]:z.2f})"
                        for b, a in pairs
                    ),
                    f"{change.mean:+z.2f} ({change.low:+z.2f} to {change.high:+z.2f})",
                ]
            )
    seeds = sorted(next(iter(runs.values())))
    return table(["game", "partner", *(f"seed {s}" for s in seeds), "change"], rows)


def mean(results: Mapping[str, Any], partner: str) -> Sequence[float]:
    """Mean return and interval over all seats."""
    return next(row[3:] for row in results["rows"] if row[:2] == [partner, "all"])


def game_text(game: str, by_seed: Mapping[int, Run]) -> str:
    """The commands of a game's first run, and the replies of all."""
    train = shlex.join(["arena", *bench.train_arguments(game, 0, "RUN")])
    measure = bench.eval_arguments(game, "RUN/model", "RUN/after.jsonl")
    replies = "\n".join(
        f"seed {seed}, {when}: {' | '.join(map(_line, episode))}"
        for seed, run in sorted(by_seed.items())
        for when in ("before", "after")
        for episode in run[when]["said"]
    )
    commands = f"{train}\n{shlex.join(['arena', *measure])}"
    return f"### {game}\n\n```text\n{commands}\n```\n\n```text\n{replies}\n```\n"


def _line(turn: Sequence[Any]) -> str:
    seat, reply = turn
    return f"player_{seat}: {' / '.join(reply.splitlines())}".replace("`", "'")


def page() -> str:
    """The text of the page."""
    all_runs = read(ROOT / bench.FILE, bench.made_with())
    runs = {game: all_runs[game][bench.SELF_PLAY] for game in bench.SETTINGS}
    num_seeds = min(map(len, runs.values()))
    return TEXT.format(
        num_seeds=num_seeds,
        last_seed=num_seeds - 1,
        num_steps=bench.OPTIONS["max_steps"],
        episodes=bench.OPTIONS["episodes_per_step"],
        warm=100,
        num_episodes=bench.NUM_EPISODES,
        returns=returns_table(runs),
        findings=FINDINGS,
        games="\n".join(game_text(*item) for item in runs.items()),
    )


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/games/language.md is out of date; run with --write")
