"""The scene of deal or no deal."""

from typing import Any

from arena_envs import talk
from arena_envs.games.deal_or_no_deal import DealOrNoDeal
from arena_envs.games.deal_or_no_deal.state import State, rest
from arena_envs.scenes.shapes import Cell, Scene, Table, seat_tone, talk_of, turn_title


def scene(game: DealOrNoDeal, state: State, viewer: int | None) -> Scene:
    """The items, what they are worth to whom, the claims, and the talk."""
    seats = (Cell("player_0", seat_tone(0)), Cell("player_1", seat_tone(1)))
    over = len(state.claims) == 2
    rows = [[Cell("in the pool"), *(Cell(str(number)) for number in state.pool)]]
    for seat, values in enumerate(state.values):
        told = [str(v) if viewer in (None, seat) else "?" for v in values]
        rows.append([seats[seat], *map(Cell, told)])
    for seat, claim in enumerate(state.claims):
        is_known = over or viewer in (None, seat)
        told = [str(number) if is_known else "?" for number in claim]
        name = seats[seat]._replace(text=f"player_{seat} claims")
        rows.append([name, *map(Cell, told)])
    title = f"items, and what one is worth; all are worth {game.points} points to each"
    shapes: list[Any] = [Table(title, ("", *game.items), rows)]

    def action(turn: int, said: talk.Utterance) -> str:
        move, values = said.move, said.values
        if move == "report":
            return f"reports: {game.each_worth(values)}"
        if move == "demand":
            left = game.counted(rest(state.pool, values))
            wanted = game.counted(values)
            return f"demands {wanted}, leaving {left}"
        return "ends the talk" if move == "end" else ""

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, action)
    return Scene(turn_title(game, state, viewer), shapes)
