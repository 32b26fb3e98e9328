"""Tabular policies: their expected returns, best responses to them, and NashConv.

A table gives, for each (seat, information state) in which the seat is to move, the
probabilities of its legal actions. All functions walk the whole game once per call.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame

Key = tuple[int, Hashable]  # seat, information state
Table = Mapping[Key, Sequence[float]]

MAX_STATES = 1_000_000


def information_states(game: AnyGame, max_states: int = MAX_STATES) -> dict[Key, Any]:
    """A state of each information state in which a seat is to move.

    Args:
        game: the rules.
        max_states: limit of the walk.

    Raises:
        ValueError: the game has more states than `max_states`.

    >>> from arena_envs import make_game
    >>> len(information_states(make_game("kuhn_poker")))
    12
    """
    found: dict[Key, Any] = {}
    for state in _states(game, max_states):
        seat = game.current_player(state)
        if seat >= 0:
            found.setdefault((seat, game.information_state(state, seat)), state)
    return found


def uniform_table(game: AnyGame) -> dict[Key, list[float]]:
    """The policy that plays each legal action with the same probability."""
    table = {}
    for key, state in information_states(game).items():
        num_legal = len(game.legal_actions(state))
        table[key] = [1 / num_legal] * num_legal
    return table


def expected_returns(game: AnyGame, table: Table) -> tuple[float, ...]:
    """Expected return of each seat when all play by the table.

    Raises:
        ValueError: the table lacks an information state, or a row does not fit.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> [round(value, 6) for value in expected_returns(game, uniform_table(game))]
    [0.125, -0.125]
    """
    memo: dict[Any, tuple[float, ...]] = {}

    def value(state: Any) -> tuple[float, ...]:
        if state not in memo:
            if game.current_player(state) == TERMINAL:
                memo[state] = tuple(game.returns(state))
            else:
                parts = [
                    [p * v for v in value(game.apply(state, action))]
                    for action, p in _branches(game, state, table)
                    if p > 0
                ]
                memo[state] = tuple(map(sum, zip(*parts, strict=True)))
        return memo[state]

    return value(game.initial_state())


def best_response_value(game: AnyGame, table: Table, seat: int) -> float:
    """Expected return of a seat that plays best against the others' table.

    At each information state I the seat takes the action with the largest
    Σ_{h ∈ I} π₋ᵢ(h) v(ha), with π₋ᵢ the probability that chance and the others reach h.
    Perfect recall makes the recursion well founded.
    """
    reach: dict[Any, float] = {}
    members: dict[Hashable, list[Any]] = {}
    for state, probability in _reached(game, table, seat):
        if state not in reach and game.current_player(state) == seat:
            key = game.information_state(state, seat)
            members.setdefault(key, []).append(state)
        reach[state] = reach.get(state, 0.0) + probability
    choice: dict[Hashable, Any] = {}
    memo: dict[Any, float] = {}

    def best_action(key: Hashable) -> Any:
        if key not in choice:
            states = members[key]
            choice[key] = max(
                game.legal_actions(states[0]),
                key=lambda a: sum(reach[s] * value(game.apply(s, a)) for s in states),
            )
        return choice[key]

    def value(state: Any) -> float:
        if state not in memo:
            player = game.current_player(state)
            if player == TERMINAL:
                memo[state] = game.returns(state)[seat]
            elif player == seat:
                action = best_action(game.information_state(state, seat))
                memo[state] = value(game.apply(state, action))
            else:
                memo[state] = sum(
                    p * value(game.apply(state, action))
                    for action, p in _branches(game, state, table)
                    if p > 0
                )
        return memo[state]

    return value(game.initial_state())


def nash_conv(game: AnyGame, table: Table) -> float:
    """Σᵢ (best response value of seat i - expected return of seat i); 0 at equilibrium.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> round(nash_conv(game, uniform_table(game)), 6)  # 11/12
    0.916667
    """
    returns = expected_returns(game, table)
    return sum(
        best_response_value(game, table, seat) - returns[seat]
        for seat in range(game.num_players)
    )


def _states(game: AnyGame, max_states: int) -> Iterator[Any]:
    start = game.initial_state()
    seen, stack = {start}, [start]
    while stack:
        state = stack.pop()
        yield state
        player = game.current_player(state)
        if player == CHANCE:
            actions = [action for action, _ in game.chance_outcomes(state)]
        else:
            actions = list(game.legal_actions(state))
        for action in reversed(actions):
            following = game.apply(state, action)
            if following not in seen:
                if len(seen) >= max_states:
                    raise ValueError(
                        f"{game!r} has more than {max_states} states: too large to "
                        "enumerate"
                    )
                seen.add(following)
                stack.append(following)


def _reached(game: AnyGame, table: Table, seat: int) -> Iterator[tuple[Any, float]]:
    """Every history's state, with the probability that chance and the others reach it."""
    stack = [(game.initial_state(), 1.0)]
    while stack:
        state, probability = stack.pop()
        yield state, probability
        player = game.current_player(state)
        if player == seat:
            stack += [
                (game.apply(state, action), probability)
                for action in game.legal_actions(state)
            ]
        elif player != TERMINAL:
            stack += [
                (game.apply(state, action), probability * p)
                for action, p in _branches(game, state, table)
            ]


def _branches(game: AnyGame, state: Any, table: Table) -> Sequence[tuple[Any, float]]:
    player = game.current_player(state)
    if player == CHANCE:
        return game.chance_outcomes(state)
    key = (player, game.information_state(state, player))
    legal = game.legal_actions(state)
    row = table.get(key)
    if row is None or len(row) != len(legal):
        raise ValueError(
            f"want {len(legal)} probabilities for information state {key}, got {row}"
        )
    return list(zip(legal, row, strict=True))
