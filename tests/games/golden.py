"""Golden playthroughs: one episode per registered game, with every text of every player.

A playthrough is a text to be reviewed as a diff: it shows what a model reads. After a change
that is meant, write the files again and read what changed:

    python tests/games/golden.py --write [ID ...]

Without `--write` the playthroughs are printed.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arena_envs
from arena_envs import CHANCE, TERMINAL, registration
from arena_envs.game import AnyGame, sample_chance

FOLDER = Path(__file__).parent / "golden"
SEEDS = {
    "guess_number-v1": 2,
    "secret_keeper-v1": 12,
    "sokoban-v1": 27,
}  # where seed 1 shows little
MAX_SHOWN = 20  # turns with all texts; of later ones the action alone


def own_ids() -> list[str]:
    """Ids of the games of this distribution, plug-ins apart."""
    return sorted(id for id, entry in registration._entries.items() if not entry.plugin)


def path(id: str) -> Path:
    """The golden file of a game."""
    return FOLDER / f"{id}.txt"


def playthrough(id: str) -> str:
    """One random episode, always the same, as text."""
    return "\n".join(_lines(id, arena_envs.make_game(id))) + "\n"


def _lines(id: str, game: AnyGame) -> Iterator[str]:
    yield f"{id}: {game!r}"
    for fact in (
        *("num_players", "num_actions", "kind", "information", "simultaneous"),
        *("zero_sum", "min_return", "max_return", "max_turns"),
    ):
        yield f"{fact}: {getattr(game, fact)}"
    yield f"teams: {list(game.teams)}"
    for seat in range(game.num_players):
        yield f"\nrules for player_{seat}:"
        yield from _quote(game.rules(seat))
    state, paid = game.initial_state(), [0.0] * game.num_players
    rng, turn = random.Random(SEEDS.get(id, 1)), 0
    while (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            outcomes = game.chance_outcomes(state)
            yield "\nchance: " + ", ".join(f"{x!r} {p:.6g}" for x, p in outcomes)
            action = sample_chance(game, state, rng)
            yield f"outcome: {action!r}"
        else:
            yield f"\n== turn {turn}: player_{player} is to move"
            legal = game.legal_actions(state)
            if turn < MAX_SHOWN:
                yield from _views(game, state)
                yield "legal:"
                yield from (f"  {a!r} = {game.action_text(state, a)}" for a in legal)
            action, turn = rng.choice(legal), turn + 1
            yield f"action: {game.action_text(state, action)}"
        state = game.apply(state, action)
        returns = [float(r) for r in game.returns(state)]
        if returns != paid:
            rewards = [now - before for now, before in zip(returns, paid, strict=True)]
            yield "rewards: " + ", ".join(f"{r + 0.0:g}" for r in rewards)  # no -0
        paid = returns
    yield f"\n== the end after {turn} turns"
    yield from _views(game, state)
    yield "returns: " + ", ".join(f"{r + 0.0:g}" for r in paid)


def _views(game: AnyGame, state: Any) -> Iterator[str]:
    for seat in range(game.num_players):
        yield f"player_{seat} reads:"
        yield from _quote(game.observe(state, seat))
        yield f"  information state: {_plain(game.information_state(state, seat))}"
        features = game.features(state, seat)
        numbers = [f"{i}:{x:g}" for i, x in enumerate(features) if x]
        yield f"  features ({len(features)}), where not 0: {' '.join(numbers)}"


def _quote(text: str) -> Iterator[str]:
    yield from (f"  | {line}" for line in text.split("\n"))


def _plain(key: Any) -> str:
    """A key as nested parentheses, names of tuple classes left out."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_plain, key))})"
    return repr(key)


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden playthroughs of the games.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="default: all games")
    parser.add_argument("--write", action="store_true", help="into tests/games/golden")
    options = parser.parse_args()
    for id in options.ids or own_ids():
        text = playthrough(id)
        if options.write:
            path(id).write_text(text, encoding="utf-8")
        else:
            print(text)


if __name__ == "__main__":
    main()
