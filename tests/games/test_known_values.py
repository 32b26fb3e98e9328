"""What `known_value` says of a game is what a solver finds."""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, make_game, registration
from arena_envs.solvers import (
    expected_returns,
    information_states,
    minimax,
    nash_conv,
    normal_form,
    optimal_joint_policy,
    pure_equilibria,
    solve_zero_sum,
    uniform_table,
)

# `known_value` is computed in the test of the game
ELSEWHERE = {
    "auction-v1",
    "blackjack-v0",
    "codenames-v1",
    "collaborative_maze-v1",
    "connect_four-v0",
    "deal_or_no_deal-v1",
    "guess_number-v1",
    "liars_dice-v0",
    "questions-v0",
    "rounds-v0",
    "say_select-v0",
    "secret_keeper-v1",
    "social_dilemma-v1",
    "sokoban-v1",
    "twenty_questions-v1",
    "werewolf-v1",
    "wordle-v1",
}


def fraction(value: float) -> str:
    return str(Fraction(value).limit_denominator(100_000))


def decimal(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def uniform_distance(game: Any) -> float:
    return nash_conv(game, uniform_table(game))


def uniform_return(game: Any) -> float:
    return expected_returns(game, uniform_table(game))[0]


def winner(game: Any) -> str:
    won = minimax(game).returns
    return "a draw" if won[0] == 0 else f"player_{won.index(1.0)} wins"


def random_results(game: Any) -> dict[float, float]:
    """Probability of each return of seat 0 in uniform play."""

    @cache
    def results(state: Any) -> dict[float, float]:
        if game.current_player(state) == TERMINAL:
            return {game.returns(state)[0]: 1.0}
        legal, found = game.legal_actions(state), defaultdict[float, float](float)
        for action in legal:
            for result, chance in results(game.apply(state, action)).items():
                found[result] += chance / len(legal)
        return found

    return results(game.initial_state())


def returns_if_all_play(game: Any, action: int) -> float:
    """What every seat gets if all always play the same action."""
    state = game.initial_state()
    while (player := game.current_player(state)) != TERMINAL:
        outcome = game.chance_outcomes(state)[0][0] if player == CHANCE else action
        state = game.apply(state, outcome)
    (paid,) = set(game.returns(state))
    return float(paid)


def bargaining(game: Any) -> str:
    """Backward induction; random play ends with an offer of half the pie on average."""
    totals, num_rounds = [0.0] * 4, game.num_rounds
    draws = game.drawn
    for factors in draws:
        offerer = 1.0
        for turn in range(num_rounds - 1, 0, -1):  # the other one offers next
            offerer = 1 - factors[turn % 2] * offerer
        shares = (offerer, 1 - offerer)
        random = (
            sum(0.5**r * 0.5 * factor ** (r - 1) for r in range(1, 7))
            for factor in factors
        )
        totals = [t + x for t, x in zip(totals, (*shares, *random), strict=True)]
    best, other, *each = (decimal(total / len(draws)) for total in totals)
    return f"subgame-perfect play {best}, {other}; random play {', '.join(each)}"


def blotto(game: Any) -> str:
    assert expected_returns(game, uniform_table(game)) == pytest.approx((0, 0))
    return f"0 by symmetry; NashConv of uniform play {fraction(uniform_distance(game))}"


def donor_game(game: Any) -> str:
    nothing, everything = (returns_if_all_play(game, a) for a in (0, 10))
    given = f"all always give everything: {everything:g} each"
    return f"in equilibrium {nothing:g} each; {given}"


def dots_and_boxes(game: Any) -> str:
    lead = minimax(make_game("dots_and_boxes", utility_margin=True)).returns[0]
    won = random_results(game)
    assert won[1.0] == pytest.approx(won[-1.0], abs=0.0005)
    boxes = f"{2 + lead / 2:g} to {2 - lead / 2:g}"
    return f"player_0 wins by {boxes}; random play: {100 * won[1.0]:.1f} % wins of each"


def goofspiel(game: Any) -> str:
    """The smaller game, solved; the default has the same symmetry."""
    small = make_game("goofspiel", num_cards=3)
    assert solve_zero_sum(small).value == pytest.approx(0, abs=1e-9)
    assert game.known_value == small.known_value
    return "0 by symmetry"


def hex_board(game: Any) -> str:
    """Smaller boards, solved; that `player_0` wins on all is a theorem."""
    for size, swap in product((2, 3), (False, True)):
        small = make_game("hex", board_size=size, swap=swap)
        assert small.known_value == winner(small)
    return winner(make_game("hex", board_size=3))


def repeated_dilemma(game: Any) -> str:
    both, alone = (returns_if_all_play(game, action) for action in (0, 1))
    return (
        f"{alone:g} each, as both always defect; both always cooperate: {both:g} each"
    )


def negotiation(game: Any) -> str:
    """Random play sells at the middle of all prices, in each round with probability 1/3."""
    draws = game.drawn
    sold = sum(3.0**-r for r in range(1, game.num_rounds + 1))
    seller = sold * sum(1 - factors[0] for factors in draws) / len(draws)
    gains = sum(max(0.0, b - a) for a, b in draws) / len(draws)  # of the last to offer
    buyer = sold * sum(factors[1] - 1 for factors in draws) / len(draws)
    random = f"{decimal(seller)}, {decimal(buyer)}"
    return f"random play {random}; both told both values, subgame-perfect 0, {decimal(gains)}"


def persuasion(game: Any) -> str:
    """One round, in which a recommendation of low quality has some probability."""
    single: Any = make_game("persuasion", num_rounds=1)
    keys = information_states(single).items()

    def paid(lies: bool, follows: bool, least: float = 0.0) -> str:
        rows = {}
        for (seat, known), state in keys:
            deceit = max(least, single.deceit(state) * lies)
            share = deceit if seat == 0 and state.qualities[-1] == "low" else 1.0
            if seat == 1:
                share = float(follows and state.said[-1].move == "recommend")
            rows[seat, known] = [share, 1 - share]
        returns = expected_returns(single, rows)
        return ", ".join(
            decimal(value) if round(value, 9) else "0" for value in returns
        )

    believed = f"honest {paid(False, True)}; committed seller {paid(True, True)}"
    return f"babbling {paid(False, False, 1.0)}; {believed}"


def poker(game: Any, number: Callable[[float], str]) -> str:
    value, distance = solve_zero_sum(game).value, uniform_distance(game)
    return f"{number(value)} for player_0; NashConv of uniform play {number(distance)}"


def dilemma(game: Any) -> str:
    (equilibrium,) = pure_equilibria(normal_form(game))
    assert equilibrium == (1, 1)
    each = returns_if_all_play(game, 1)
    return f"{each:g} each, as both defect; NashConv of uniform play {uniform_distance(game):g}"


def public_goods(game: Any) -> str:
    nothing, everything = (returns_if_all_play(game, a) for a in (0, game.endowment))
    given = f"all contribute everything: {everything:g} each"
    return f"in equilibrium {nothing:g} each; {given}"


def referential(game: Any) -> str:
    """Small games, solved: the value depends on the number of objects alone."""
    for n in (2, 3):
        params = {"num_objects": n, "num_values": n}
        small = make_game("referential", num_attributes=1, num_rounds=1, **params)
        assert optimal_joint_policy(small).value == pytest.approx(1)
        assert uniform_return(small) == pytest.approx(1 / n)
        assert small.known_value == game.known_value.replace("4", str(n))
    n = game.num_objects
    return f"with a shared code 1; silent play 1/{n}; random play 1/{n}"


def signaling(game: Any) -> str:
    targets = game.num_targets
    best = optimal_joint_policy(game).value * targets
    assert uniform_return(game) == pytest.approx(1 / targets)
    return f"best {best:g}/{targets}; random 1/{targets}"


def speaker_listener(game: Any) -> str:
    """No pair does better than a listener who knows the goal, which two words can tell."""
    nearest = min(game.cells.distance(goal) for goal in game.goals)
    best = fraction((game.max_steps + 1 - nearest) / game.max_steps)
    return f"best {best}; random {fraction(uniform_return(game))}"


def taboo(game: Any) -> str:
    """Random play guesses with repetition, a silent pair without; small games are solved."""

    def guessed(num_cards: int, num_rounds: int) -> float:
        left, total = 1.0, 0.0
        for number in range(num_rounds):
            total += left / num_cards * (1 - number / num_rounds)
            left *= 1 - 1 / num_cards
        return total

    params = {"num_cards": 3, "num_rounds": 2}
    assert uniform_return(make_game("taboo", **params)) == pytest.approx(guessed(3, 2))
    opponents = make_game("taboo", num_cards=2, num_rounds=2, adversarial=True)
    assert solve_zero_sum(opponents).value == pytest.approx(0, abs=1e-9)
    assert opponents.known_value == "0 in the finite core"
    n, most = game.num_cards, game.num_rounds
    silent = sum(1 - number / most for number in range(most)) / n
    return f"best 1; silent play {silent:g}; random play {guessed(n, most):.6f}"


def tic_tac_toe(game: Any) -> str:
    won = random_results(game)
    first, second = decimal(won[1.0]), decimal(won[-1.0])
    return f"{winner(game)}; random play: X wins {first}, O {second}"


def tiny_hanabi(game: Any) -> str:
    best = optimal_joint_policy(game).value
    rows = {key: [0.0, 1.0, 0.0] for key in information_states(game)}
    ignoring = expected_returns(game, rows)[0]
    random = fraction(uniform_return(game))
    return f"best {best:g}; {ignoring:g} if cards are ignored; random {random}"


def tree(game: Any) -> str:
    first, second = minimax(game).returns
    assert first == second
    return f"{first:g} for both players, by backward induction"


SOLVED: dict[str, Callable[[Any], str]] = {
    "bargaining-v1": bargaining,
    "colonel_blotto-v0": blotto,
    "donor_game-v0": donor_game,
    "dots_and_boxes-v0": dots_and_boxes,
    "goofspiel-v0": goofspiel,
    "hanabi-v0": lambda game: f"at most {game.max_return:g}",
    "hex-v0": hex_board,
    "iterated_matrix_game-v0": repeated_dilemma,
    "iterated_prisoners_dilemma-v0": repeated_dilemma,
    "kuhn_poker-v0": lambda game: poker(game, fraction),
    "leduc_poker-v0": lambda game: poker(game, "{:.6f}".format),
    "matrix_game-v0": dilemma,
    "mini_hanabi-v0": lambda game: f"at most {game.max_return:g}",
    "negotiation-v1": negotiation,
    "nim-v0": winner,
    "persuasion-v1": persuasion,
    "prisoners_dilemma-v0": dilemma,
    "public_goods-v0": public_goods,
    "referential-v1": referential,
    "signaling-v0": signaling,
    "simple_hanabi-v0": lambda game: f"at most {game.max_return:g}",
    "speaker_listener-v0": speaker_listener,
    "taboo-v1": taboo,
    "tic_tac_toe-v0": tic_tac_toe,
    "tiny_hanabi-v0": tiny_hanabi,
    "tree-v0": tree,
}


@pytest.mark.parametrize("id", SOLVED)
def test_the_known_value_is_what_a_solver_finds(id: str) -> None:
    pytest.importorskip("scipy")
    game = make_game(id)
    assert game.known_value == SOLVED[id](game)


def test_every_known_value_is_computed() -> None:
    own = [id for id, entry in registration._entries.items() if not entry.plugin]
    known = {id for id in own if make_game(id).known_value is not None}
    assert known == SOLVED.keys() | ELSEWHERE


@pytest.mark.parametrize(
    ("id", "params", "value"),
    [
        ("breakthrough", {"rows": 4, "columns": 3}, "player_0 wins"),
        ("signaling", {"num_targets": 3, "num_words": 2}, "best 2/3; random 1/3"),
    ],
)
def test_other_parameters_have_their_known_values(
    id: str, params: dict[str, int], value: str
) -> None:
    game = make_game(id, **params)
    assert (
        game.known_value
        == value
        == (winner if id == "breakthrough" else signaling)(game)
    )
