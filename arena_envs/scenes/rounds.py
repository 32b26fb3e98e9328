"""Scenes of games in which all seats choose at once, in one round or in several."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from arena_envs.game import TERMINAL, AnyGame
from arena_envs.games._goofspiel_state import State as GoofspielState
from arena_envs.games._matrix_rounds import MatrixRounds
from arena_envs.games._matrix_rounds import State as MatrixState
from arena_envs.games.colonel_blotto import ColonelBlotto
from arena_envs.games.donor_game import DonorGame
from arena_envs.games.donor_game import State as DonorState
from arena_envs.games.goofspiel import Goofspiel
from arena_envs.games.public_goods import PublicGoods
from arena_envs.games.public_goods import State as GoodsState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Card, Cards, Cell, Grid, Scene, Table, seat_tone

MAX_CELLS = 60  # of a table of payoffs that is shown
MAX_ROUNDS = 12  # latest rounds that are shown


def _seats(game: AnyGame) -> list[str]:
    return [f"player_{seat}" for seat in range(game.num_players)]


def _rounds(
    game: AnyGame, title: str, rows: Sequence[Sequence[Cell]], sums: Iterable[str]
) -> Table:
    """The latest rounds, and a last row of sums, the first of which is its name."""
    if len(rows) > MAX_ROUNDS:
        title += f"; the latest {MAX_ROUNDS} rounds"
    last = [Cell(text) for text in sums]
    return Table(title, ("round", *_seats(game)), [*rows[-MAX_ROUNDS:], last])


def _chosen(chosen: Sequence[str], num_players: int, viewer: int | None) -> list[Cell]:
    """The choices of a running round; a seat sees its own only."""
    cells = []
    for seat in range(num_players):
        is_known = seat < len(chosen) and viewer in (None, seat)
        cells.append(Cell(chosen[seat], seat_tone(seat)) if is_known else Cell("?"))
    return cells


def matrix_game(game: MatrixRounds, state: MatrixState, viewer: int | None) -> Scene:
    """The table of payoffs, with the last cell that was played, and the rounds."""
    names = game.names
    rows = [
        [
            Cell(str(number)),
            *(Cell(names[s][a], seat_tone(s)) for s, a in enumerate(choices)),
        ]
        for number, choices in enumerate(state.rounds, 1)
    ]
    if game.current_player(state) != TERMINAL:
        told = [names[seat][action] for seat, action in enumerate(state.chosen)]
        now = _chosen(told, game.num_players, viewer)
        rows.append([Cell(str(len(rows) + 1)), *now])
    paid = ["paid", *(f"{value:.6g}" for value in state.paid)]
    shapes: list[Any] = [_rounds(game, "choices by round", rows, paid)]
    if len(game.cells) <= MAX_CELLS:
        shapes.insert(0, _payoffs(game, state.rounds[-1] if state.rounds else None))
    return Scene(turn_title(game, state, viewer), shapes)


def _payoffs(game: MatrixRounds, last: tuple[int, ...] | None) -> Table:
    """The payoffs; with two seats as a table of rows and columns."""
    names, cells = game.names, game.cells

    def paid(choices: tuple[int, ...]) -> Cell:
        text = ", ".join(f"{value:.6g}" for value in cells[choices])
        return Cell(text, "green" if choices == last else "")

    if game.num_players == 2:
        rows = [
            [Cell(name), *(paid((i, j)) for j in range(len(names[1])))]
            for i, name in enumerate(names[0])
        ]
        title = "payoffs: player_0 chooses the row, player_1 the column"
        return Table(title, ("", *names[1]), rows)
    rows = [
        [*(Cell(names[s][a]) for s, a in enumerate(choices)), paid(choices)]
        for choices in product(*map(range, game.shape))
    ]
    return Table("payoffs", (*_seats(game), "payoffs"), rows)


def public_goods(game: PublicGoods, state: GoodsState, viewer: int | None) -> Scene:
    """The contributions by round, and the payments."""
    rows = [
        [Cell(str(number)), *map(_share(game.endowment), choices)]
        for number, choices in enumerate(state.rounds, 1)
    ]
    if game.current_player(state) != TERMINAL:
        now = _chosen([str(c) for c in state.chosen], game.num_players, viewer)
        rows.append([Cell(str(len(rows) + 1)), *now])
    paid = ["paid", *(f"{value:.6g}" for value in state.paid)]
    title = f"contributions of {game.endowment} tokens; the pot counts x "
    title += f"{game.multiplier:g}"
    table = _rounds(game, title, rows, paid)
    return Scene(turn_title(game, state, viewer), [table])


def _share(most: int) -> Any:
    """A field with a number, colored by its share of the most."""

    def cell(value: int) -> Cell:
        tone = "green" if 2 * value >= most else "gone" if value == 0 else ""
        return Cell(str(value), tone)

    return cell


def donor_game(game: DonorGame, state: DonorState, viewer: int | None) -> Scene:
    """Who gives to whom, the gifts by round, and the units."""
    num = game.num_players
    rows = []
    for number, choices in enumerate(state.rounds):
        shift = state.shifts[number]
        gifts = [
            Cell(f"{_gift(game, action)} to {(seat + shift) % num}")
            for seat, action in enumerate(choices)
        ]
        rows.append([Cell(str(number + 1)), *gifts])
    if len(state.shifts) > len(state.rounds):
        shift = state.shifts[-1]
        told = [
            f"{_gift(game, action)} to {(seat + shift) % num}"
            for seat, action in enumerate(state.chosen)
        ]
        now = [
            cell if cell.tone else Cell(f"? to {(seat + shift) % num}")
            for seat, cell in enumerate(_chosen(told, num, viewer))
        ]
        rows.append([Cell(str(len(rows) + 1)), *now])
    units = ["units", *(f"{each / 100:.6g}" for each in state.hundredths)]
    table = _rounds(game, "gifts by round: share, and to which player", rows, units)
    return Scene(turn_title(game, state, viewer), [table])


def _gift(game: DonorGame, action: int) -> str:
    share = action * game.gift_step
    return "punish" if share > 100 else f"{share}%"


def colonel_blotto(
    game: ColonelBlotto, state: tuple[int, ...], viewer: int | None
) -> Scene:
    """The coins of each seat by field; hidden until all have chosen."""
    over = len(state) == game.num_players
    divided = [
        [int(coins) for coins in game.action_text(state, action).split()]
        for action in state
    ]
    rows = []
    for seat in range(game.num_players):
        is_known = seat < len(state) and (over or viewer in (None, seat))
        coins: list[str] = ["?"] * game.num_fields
        if is_known:
            coins = [str(number) for number in divided[seat]]
        rows.append([Cell(number) for number in coins])
    if over:
        for field in range(game.num_fields):
            column = [coins[field] for coins in divided]
            if column.count(max(column)) == 1:
                seat = column.index(max(column))
                rows[seat][field] = rows[seat][field]._replace(tone=seat_tone(seat))
    fields = [f"{number}" for number in range(1, game.num_fields + 1)]
    board = Grid(rows, "coins by field", _seats(game), fields)
    return Scene(turn_title(game, state, viewer), [board])


def goofspiel(game: Goofspiel, state: GoofspielState, viewer: int | None) -> Scene:
    """The prize, the hands, and the rounds that are over."""
    num, rounds, running = game.num_players, game.rounds(state), game.running(state)
    hides = game.imp_info and viewer is not None
    shapes: list[Any] = []
    if len(state.prizes) > len(rounds):
        shapes.append(Cards("prize", [Card(str(state.prizes[-1] + 1), "yellow")]))
    for seat in range(num):
        hand = game.open_hand(state, seat)
        hidden = hides and seat != viewer
        faces = [Card(None if hidden else str(card + 1)) for card in hand]
        points = game.points(state)[seat]
        shapes.append(Cards(f"player_{seat}: {points} points", faces, seat))
    rows = [
        [Cell(str(prize + 1), "yellow"), *_bids(bids, viewer if hides else None)]
        for prize, bids in zip(state.prizes, rounds, strict=False)
    ]
    if len(state.prizes) > len(rounds):
        now = _chosen([str(bid + 1) for bid in running], num, viewer)
        rows.append([Cell(str(state.prizes[-1] + 1), "yellow"), *now])
    if rows:
        shapes.append(Table("bids by prize", ("prize", *_seats(game)), rows))
    return Scene(turn_title(game, state, viewer), shapes)


def _bids(bids: Sequence[int], viewer: int | None) -> list[Cell]:
    """The bids for a prize, the winner's in color; with a viewer only its own."""
    won = max(bids) if list(bids).count(max(bids)) == 1 else None
    return [
        Cell(
            str(bid + 1) if viewer in (None, seat) else "?",
            seat_tone(seat) if bid == won else "",
        )
        for seat, bid in enumerate(bids)
    ]
