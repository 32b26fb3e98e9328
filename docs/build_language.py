"""Builds `docs/games/language.md`: a pretrained chat model in five language games.

    python docs/build_language.py --measure [GAME ...]

measures the games that `docs/games/language.json` lacks, each in a process of its own, and adds
the results of each game as soon as it is done. `--write` makes the page from this file. Without
options the script checks that the page is up to date.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("games")
DATA, PAGE = FOLDER / "language.json", FOLDER / "language.md"
GAMES: dict[str, tuple[dict[str, Any], str]] = {  # parameters, the teacher
    "negotiation": ({"num_rounds": 3, "num_offers": 11}, "negotiator:honest"),
    "persuasion": ({"num_rounds": 4, "prior": 0.5}, "persuader:honest"),
    "deal_or_no_deal": (
        {"min_items": 4, "max_items": 4, "max_talk": 4},
        "dealer:honest",
    ),
    "social_dilemma": ({"num_rounds": 2}, "promiser:honest"),
    "collaborative_maze": ({"size": 3, "max_steps": 6}, "maze_walker:honest"),
}
SHORT: dict[str, Any] = {"rules": False, "reply_format": "bare"}  # prompts
FULL: dict[str, Any] = {"rules": True, "reply_format": "answer"}
NUM_EPISODES, SHORT_REPLY, FULL_REPLY = 20, 48, 64  # most tokens of a reply
START = {"num_steps": 20, "batch_size": 8, "learning_rate": 5e-5}
NUM_TAUGHT, FIRST_TAUGHT = 100, 1000  # episodes of the teacher; their first seed
NOISE = 0.3  # probability of a random legal action in the teacher's episodes
MAX_TOKENS = 1024  # that run at once in the supervised start


def measure(name: str) -> dict[str, Any]:
    """Results in one game: of random play, the model before and after its start, the teacher."""
    import torch

    from arena_trainers.lm import LMPolicy
    from arena_trainers.offline.sft import warm_start
    from arena_trainers.runs.results.close import cost, versions

    torch.set_num_threads(1)
    short = LMPolicy.from_pretrained(
        "smollm2", device="cpu", max_new_tokens=SHORT_REPLY
    )
    full = LMPolicy(short.model, short.tokenizer, max_new_tokens=FULL_REPLY)
    params, teacher = GAMES[name]
    players = {
        "uniform random play": played(name, "random"),
        "model, full prompts": played(name, full, FULL),
        "model": played(name, short),
    }
    losses = warm_start(short, taught(name), max_tokens=MAX_TOKENS, **START)
    players["model after the start"] = played(name, short)
    players["teacher"] = played(name, teacher)
    return {
        "params": params,
        "players": players,
        "loss": [losses[0], losses[-1]],
        "cost": cost(),
        "versions": versions(),
    }


def taught(name: str) -> list[Any]:
    """Prompts with the teacher's replies, in states that a noisy teacher reaches."""
    from arena_envs import make
    from arena_trainers.data import Recorder
    from arena_wrappers import PromptWrapper, make_policy, play

    params, teacher = GAMES[name]
    recorder = Recorder(make_policy(f"noisy:{NOISE}({teacher})"), make_policy(teacher))
    env = PromptWrapper(make(name, **params), **SHORT)
    seeds = range(FIRST_TAUGHT, FIRST_TAUGHT + NUM_TAUGHT)
    play(env.clone, [recorder] * env.env.game.num_players, seeds, on_error="raise")
    return recorder.examples


def played(name: str, policy: Any, prompt: dict[str, Any] = SHORT) -> dict[str, Any]:
    """A policy's self-play: counts of replies, return and measures with intervals, replies."""
    from arena_envs import make
    from arena_trainers.evaluate import evaluate
    from arena_wrappers import read_episodes

    env = make(name, **GAMES[name][0])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "episodes.jsonl"
        found = evaluate(
            policy,
            env,
            ["self"],
            NUM_EPISODES,
            prompt=prompt,
            baselines=False,
            out=out,
        )
        episodes = sorted(read_episodes(out), key=lambda episode: episode.seed)
    turns = [turn for episode in episodes for turn in episode.turns]
    row = found.rows[-1]
    return {
        "replies": len(turns),
        "legal": sum(turn.invalid is None for turn in turns),
        "spoken": sum(_has_message(turn.action) for turn in turns),
        "forfeits": sum(episode.forfeited_by is not None for episode in episodes),
        "return": [row.mean_return, row.low, row.high],
        "measures": row.measures,
        "said": [[turn.seat, turn.reply] for turn in episodes[0].turns],
    }


def _has_message(action: str | None) -> bool:
    """Whether an action's canonical text has a message: above it, or after "say:"."""
    return action is not None and ("\n" in action or action.startswith("say:"))


def measure_games(names: Sequence[str]) -> None:
    """Measures games one after the other and keeps each result."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    spawn = multiprocessing.get_context("spawn")
    for name in names or [name for name in GAMES if name not in data]:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            data[name] = pool.submit(measure, name).result()
        DATA.write_text(json.dumps(data, indent=1) + "\n")


def page(data: dict[str, Any]) -> str:
    """The text of `docs/games/language.md`."""
    costs = [found["cost"] for found in data.values()]
    versions = next(iter(data.values()))["versions"]
    return PAGE_TEXT.format(
        num_games=len(data),
        num_episodes=NUM_EPISODES,
        missed=1 - 0.025 ** (1 / NUM_EPISODES),  # see `mean_interval`
        num_taught=NUM_TAUGHT,
        noise=NOISE,
        full_reply=FULL_REPLY,
        short_reply=SHORT_REPLY,
        summary="\n".join(_summary(*item) for item in data.items()),
        games="\n\n".join(_game(*item) for item in data.items()),
        minutes=f"{sum(cost['cpu_seconds'] for cost in costs) / 60:.0f}",
        memory=f"{max(cost['peak_memory_bytes'] for cost in costs) / 1e9:.1f}",
        versions=", ".join(f"{name} {v}" for name, v in versions.items() if v),
        **START,
    )


def _summary(name: str, found: dict[str, Any]) -> str:
    players, cost = found["players"], found["cost"]
    shares = [_legal(players[player]) for player in MODELS]
    spoken = players[MODELS[-1]]
    return (
        f"| [{name}]({name}.md) | {' | '.join(shares)} | {spoken['forfeits']} | "
        f"{spoken['spoken']} | {cost['cpu_seconds'] / 60:.1f} |"
    )


def _legal(player: dict[str, Any]) -> str:
    share = player["legal"] / player["replies"]
    return f"{player['legal']} of {player['replies']}, {share:.0%}"


def _game(name: str, found: dict[str, Any]) -> str:
    """A game's table, and what was said in its first episode."""
    players = found["players"]
    measures = sorted({key for p in players.values() for key in p["measures"]})
    head = ["player", "return", *measures]
    given = ", ".join(f"{key}={value!r}" for key, value in found["params"].items())
    first, last = found["loss"]
    said = "\n".join(_line(*turn) for turn in players[MODELS[-1]]["said"])
    return "\n".join(
        [
            f"### {name}",
            "",
            f'`make("{name}", {given})`. The teacher is `{GAMES[name][1]}`. The loss of the '
            f"supervised start falls from {first:.2f} to {last:.2f} nats per token.",
            "",
            f"| {' | '.join(head)} |",
            "|---" * len(head) + "|",
            *(_row(player, p, measures) for player, p in players.items()),
            "",
            "The first episode of the model after the start:",
            "",
            "```text",
            said,
            "```",
        ]
    )


def _row(player: str, found: dict[str, Any], measures: Sequence[str]) -> str:
    """Means with intervals; no measures where no game was played to its end."""
    if found["forfeits"] == NUM_EPISODES:
        cells = ["-"] * len(measures)
    else:
        cells = [_mean(*found["measures"][key]) for key in measures]
    return f"| {' | '.join([player, _mean(*found['return']), *cells])} |"


def _mean(mean: float, low: float | None, high: float | None) -> str:
    ends = ["?" if end is None else f"{end:.2f}" for end in (low, high)]
    return f"{mean:.2f} ({ends[0]} to {ends[1]})"


def _line(seat: int, reply: str) -> str:
    """A reply in one line that cannot end its block."""
    return f"player_{seat}: {' / '.join(reply.splitlines())}".replace("`", "'")


MODELS = ("model, full prompts", "model", "model after the start")
PAGE_TEXT = """# Language games with a pretrained chat model

SmolLM2-135M-Instruct (see [../smollm2.md](../smollm2.md)) plays {num_games} language games against itself, before
and after a supervised start. `python docs/build_language.py` wrote this page from its own measurements:

```
python docs/build_language.py --measure
python docs/build_language.py --write
```

All games took {minutes} CPU minutes on one thread and at most {memory} GB of memory.
The machine ran other work at the same time, which adds CPU time.

## How it was measured

A *teacher* is the game's scripted player of the style `honest`. It writes messages in
`negotiation`, `persuasion` and `collaborative_maze`. The examples come from {num_taught} episodes of a noisy
teacher: each of its actions is a random legal one with probability {noise}. In each state the
reply of the teacher without noise was recorded. The supervised start imitates these replies in
{num_steps} optimizer steps of {batch_size} replies. All weights are trained, with a learning rate that falls
from {learning_rate} to 0.

Each player then played {num_episodes} episodes with itself in all seats, on the same seeds. The seeds
of the supervised start are other ones. An illegal reply ends the episode as the game's `forfeit` says.

- *uniform random play* chooses among the legal actions of the finite core, without messages.
- *model, full prompts*: the model as it comes. Prompts have the rules, and ask for the action between
  `<answer>` tags. Replies end after {full_reply} tokens at the latest.
- *model*: the model as it comes, with the short prompts of the supervised start. They have no rules, and
  the whole reply is read as message and action. Replies end after {short_reply} tokens at the latest.
- *model after the start*: the same after the supervised start.
- *teacher*: the scripted player itself.

## Legal replies

Columns are the model with full prompts, the model with short prompts, and the model after the start.
Forfeits are of the {num_episodes} episodes after the start; messages are legal replies with free words in
these episodes. CPU minutes are of all that was done in a game.

| game | full prompts | short prompts | after the start | forfeits | messages | CPU minutes |
|---|---|---|---|---|---|---|
{summary}

## Returns and measures

Returns are means over seats and episodes, with 95 % intervals. If all {num_episodes} values are equal, other
values may still have a probability of up to {missed:.0%}, and the interval has all means that this allows.
The pages of the games define the measures.
A forfeited episode has the measures of the state in which it ended, for example `fairness` 1 where
there was no sale. A dash says that all episodes were forfeited.

{games}

## What this shows

Before the supervised start no reply is legal, with either kind of prompt. After {num_steps} steps of imitation at
least nine of ten are, in every game. Replies with messages are among them. One illegal reply ends an
episode. So about half of the episodes of collaborative_maze are still forfeited.

It does not show skill. The instances are small, training had one seed, and intervals from {num_episodes} episodes
are wide. The model imitates a scripted player and reads no rules. Nothing here was learnt from rewards.

{versions}
"""


NOTHING = """# Language games with a pretrained chat model

Nothing is measured with the present versions of these games yet: the numbers of version 0 are removed, as
rules and texts differ. `python docs/build_language.py --measure` plays {games} with
SmolLM2-135M-Instruct (see [../smollm2.md](../smollm2.md)), before and after a supervised start, in about half an
hour and 5 GB of memory; `--write` then writes this page.
"""


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="The page of the language games.")
    parser.add_argument("--measure", nargs="*", choices=GAMES, metavar="GAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.measure is not None:
        measure_games(options.measure)
        return
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    text = page(data) if data else NOTHING.format(games=", ".join(GAMES))
    if options.write:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/games/language.md is out of date; run with --write")


if __name__ == "__main__":
    main()
