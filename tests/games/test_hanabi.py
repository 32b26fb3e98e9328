"""Hanabi: its rules, its known values, and the hands that a seat may hold."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arena_envs
from arena_envs import CHANCE, TERMINAL
from arena_envs.game import sample_chance
from arena_envs.games.hanabi import Hanabi, State, Turn

mini: Any = arena_envs.make_game("mini_hanabi-v0")
R1, R2, Y1, Y2 = range(4)
DEAL = [R1, R2, Y1, R1, Y1, Y2]  # three cards for player_0, then three for player_1

GAMES = [
    mini,
    Hanabi(),
    Hanabi(num_players=3, num_colors=1, num_ranks=5, hand_size=2),
    Hanabi(num_players=5, num_colors=4, num_ranks=3, max_information_tokens=2),
    Hanabi(4, num_ranks=1, hand_size=3, max_life_tokens=1, max_information_tokens=0),
]


def play(
    *actions: int | str, rules: Hanabi = mini, deal: Sequence[int] = DEAL
) -> State:
    """The state after a deal and actions by their texts; integers are cards drawn."""
    state = rules.initial_state()
    for action in (*deal, *actions):
        if isinstance(action, str):
            action = rules.parse(state, action)
        state = rules.apply(state, action)
    return state


def random_state(rules: Hanabi, rng: random.Random, num_actions: int) -> State:
    state = rules.initial_state()
    for _ in range(num_actions):
        if rules.current_player(state) == TERMINAL:
            break
        if rules.current_player(state) == CHANCE:
            state = rules.apply(state, sample_chance(rules, state, rng))
        else:
            state = rules.apply(state, rng.choice(rules.legal_actions(state)))
    return state


@pytest.mark.parametrize("rules", GAMES[2:], ids=repr)
def test_other_parameters_keep_the_contract(rules: Hanabi, check_contract: Any) -> None:
    check_contract(rules)


def test_a_right_card_scores_for_everybody_and_is_replaced() -> None:
    state = play("play 0")
    assert mini.returns(state) == (1, 1)
    assert mini.current_player(state) == CHANCE
    state = mini.apply(state, Y1)
    assert mini.current_player(state) == 1
    assert state.hands == (bytes([R2, Y1, Y1]), bytes([R1, Y1, Y2]))


def test_a_wrong_card_costs_a_life_and_the_last_life_takes_the_score_back() -> None:
    state = play("play 0", R1, "play 2")  # red 1 is right, yellow 2 is too early
    assert (state.life_tokens, mini.returns(state)) == (2, (1, 1))
    rules = Hanabi(2, 2, 2, hand_size=3, max_information_tokens=3, max_life_tokens=1)
    state = play("play 0", R1, "play 2", rules=rules)
    assert rules.current_player(state) == TERMINAL
    assert rules.returns(state) == (0, 0)


def test_a_completed_firework_regains_a_token() -> None:
    state = play("reveal red to player_1", "reveal red to player_0")
    state = mini.apply(mini.apply(state, mini.parse(state, "play 0")), R1)
    state = mini.apply(state, mini.parse(state, "reveal rank 1 to player_0"))
    assert state.information_tokens == 0
    state = mini.apply(state, mini.parse(state, "play 0"))
    assert (state.fireworks, state.information_tokens) == (bytes([2, 0]), 1)


def test_discarding_regains_a_token_and_needs_a_missing_one() -> None:
    texts = [mini.action_text(play(), a) for a in mini.legal_actions(play())]
    assert not [text for text in texts if text.startswith("discard")]
    state = play("reveal red to player_1", "discard 1")
    assert state.information_tokens == 3
    assert state.discards == (bytes([0, 0]), bytes([1, 0]))


def test_a_hint_needs_a_token_and_a_card_that_it_points_at() -> None:
    state = play(deal=[R1, R1, R1, R2, Y1, Y1])
    texts = [mini.action_text(state, a) for a in mini.legal_actions(state)]
    hints = ["red to player_1", "yellow to player_1", "rank 1 to player_1"]
    assert texts[3:] == [f"reveal {hint}" for hint in [*hints, "rank 2 to player_1"]]
    state = mini.apply(state, mini.parse(state, "reveal red to player_1"))
    texts = [mini.action_text(state, a) for a in mini.legal_actions(state)]
    assert texts[6:] == ["reveal red to player_0", "reveal rank 1 to player_0"]


def test_everybody_has_one_turn_after_the_last_card() -> None:
    state = play("play 0", Y1, "play 0", R1)
    assert state.deck_size == 0 == sum(state.deck)
    for player in (0, 1):
        assert mini.current_player(state) == player
        state = mini.apply(state, mini.legal_actions(state)[-1])
    assert mini.current_player(state) == TERMINAL


def test_hints_tell_what_a_card_is_and_what_it_is_not() -> None:
    state = play("reveal red to player_1", "reveal rank 2 to player_0")
    assert mini.observe(state, 0).split("\n") == [
        "You are player_0. You are to move. Life tokens: 3. Information tokens: 1. "
        "Deck: 2.",
        "Fireworks: red 0, yellow 0.",
        "Discards: none.",
        "Your cards, as far as you know:",
        "0: any color, rank 1",
        "1: any color, rank 2",
        "2: any color, rank 1",
        "Cards of player_1 (as far as player_1 knows):",
        "0: red 1 (red, any rank)",
        "1: yellow 1 (yellow, any rank)",
        "2: yellow 2 (yellow, any rank)",
        "Since your last turn:",
        "player_1: reveal rank 2 to player_0 (card 1)",
    ]


def test_the_text_tells_whose_turn_it_is_and_the_score() -> None:
    starts = [
        text.partition(" Life")[0] for text in map(mini.observe, [play()] * 2, [0, 1])
    ]
    assert starts == [
        "You are player_0. You are to move.",
        "You are player_1. player_0 is to move.",
    ]
    rules = Hanabi(2, 2, 2, hand_size=3, max_information_tokens=3, max_life_tokens=1)
    end = rules.observe(play("play 0", R1, "play 2", rules=rules), 1)
    assert end.startswith("You are player_1. The game is over: the score is 0. Life")


def test_the_rules_name_the_token_and_count_in_the_singular() -> None:
    text = Hanabi(hand_size=1, max_information_tokens=1, max_life_tokens=1).rules(0)
    assert "Each player holds 1 card, numbered" in text
    assert "start with 1 life token and 1 information token, the most" in text
    assert "Completing a firework regains an information token, too" in text


def test_always_playing_card_0_of_mini_hanabi_is_worth_its_known_value() -> None:
    assert value(Fraction, lambda state: [3]) == Fraction(23, 10)


@pytest.mark.slow
def test_random_play_of_mini_hanabi_is_worth_its_known_value() -> None:
    assert value(float, mini.legal_actions) == pytest.approx(1.436136, abs=1e-6)


SIMPLE = arena_envs.make_game("simple_hanabi-v0")


@pytest.mark.parametrize(
    ("rules", "always", "mean"),
    [
        (Hanabi(), None, 0.0),
        (Hanabi(), "play 0", 0.0),
        (SIMPLE, None, 1.586),
        (SIMPLE, "play 0", 2.5385),
    ],
)
def test_the_mean_of_2000_games_with_seed_0_is_the_known_value(
    rules: Hanabi, always: str | None, mean: float
) -> None:
    """Of uniform random play, or of one action at every turn."""
    rng, total = random.Random(0), 0.0
    for _ in range(2000):
        state = rules.initial_state()
        while (player := rules.current_player(state)) != TERMINAL:
            if player == CHANCE:
                action = sample_chance(rules, state, rng)
            elif always:
                action = rules.parse(state, always)
            else:
                action = rng.choice(rules.legal_actions(state))
            state = rules.apply(state, action)
        total += rules.returns(state)[0]
    assert total / 2000 == mean


def test_the_presets_have_their_sizes() -> None:
    """Simple Hanabi has twelve cards, of which all but two are dealt."""
    assert arena_envs.make_game("hanabi-v0") == Hanabi()
    sizes = [
        (g.max_return, sum(g.copies), g.max_turns) for g in (mini, SIMPLE, Hanabi())
    ]
    assert sizes == [(4, 8, 8), (6, 12, 13), (25, 50, 89)]


def value(number: Any, choices: Any) -> Any:
    """Exact score if each of the chosen actions is equally likely."""

    @cache
    def score(state: State) -> Any:
        player = mini.current_player(state)
        if player == TERMINAL:
            return number(mini.returns(state)[0])
        if player == CHANCE:
            return sum(
                number(copies)
                / state.deck_size
                * score(forget(mini.apply(state, card)))
                for card, copies in enumerate(state.deck)
                if copies
            )
        after = [score(forget(mini.apply(state, a))) for a in choices(state)]
        return sum(after) / len(after)

    return score(forget(mini.initial_state()))


def forget(state: State) -> State:
    """Leaves out what does not change the rules: hints, discards, all but whose turn."""
    return state._replace(
        hints=tuple(tuple(0 for _ in hand) for hand in state.hands),
        discards=tuple(bytes(len(row)) for row in state.discards),
        history=(Turn(0),) * (len(state.history) % 2),
    )


def test_the_longest_game_is_as_long_as_declared() -> None:
    """Hints until no token is left, then discards and hints in turn, then hints."""
    for rules in GAMES[:4]:
        state, num_turns = random_state(rules, random.Random(0), 0), 0
        while (player := rules.current_player(state)) != TERMINAL:
            if player == CHANCE:
                state = rules.apply(state, rules.chance_outcomes(state)[0][0])
                continue
            legal = rules.legal_actions(state)
            state = rules.apply(
                state, legal[-1] if state.information_tokens else legal[0]
            )
            num_turns += 1
        assert num_turns == rules.max_turns


def test_the_text_is_bounded() -> None:
    """It has no more than 1,800 characters in the largest game."""
    rules = Hanabi(num_players=5)
    rng = random.Random(0)
    states = [random_state(rules, rng, num) for num in range(20, 80) for _ in range(10)]
    assert max(len(rules.observe(s, seat)) for s in states for seat in range(5)) < 1800


@pytest.mark.parametrize(
    ("deal", "actions"),
    [
        (DEAL, ["reveal red to player_1", "reveal rank 1 to player_0"]),
        (DEAL, ["play 0", Y1, "reveal yellow to player_0", "play 0", R1]),
        ([R1, R1, Y1], []),
        ([R1, R1], []),
    ],
)
@pytest.mark.parametrize("seat", [0, 1])
def test_a_new_hand_is_as_likely_as_its_deals(
    deal: list[int], actions: list[Any], seat: int
) -> None:
    """Compares with all orders of the deck that give the seat the same knowledge."""
    state = play(*actions, deal=deal)
    key = mini.information_state(state, seat)
    exact = defaultdict[Any, float](float)

    def add(other: State, left: Sequence[Any], weight: float) -> None:
        if not left:
            if mini.information_state(other, seat) == key:
                exact[other] += weight
        elif isinstance(left[0], str):
            action = next(
                (a for a in range(10) if mini.action_text(other, a) == left[0]), None
            )
            if action in mini.legal_actions(other):
                add(mini.apply(other, action), left[1:], weight)
        else:
            for card, chance in mini.chance_outcomes(other):
                add(mini.apply(other, card), left[1:], weight * chance)

    add(mini.initial_state(), [*deal, *actions], 1.0)
    rng, num = random.Random(0), 5_000
    drawn = Counter(mini.resample(state, seat, rng) for _ in range(num))
    assert set(drawn) == set(exact)
    total = sum(exact.values())
    for other, weight in exact.items():
        p = weight / total
        assert drawn[other] / num == pytest.approx(p, abs=5 * (p / num) ** 0.5)


@given(st.sampled_from(GAMES), st.randoms(use_true_random=False), st.integers(0, 60))
def test_no_card_is_lost_and_every_hint_is_true(
    rules: Hanabi, rng: random.Random, num_actions: int
) -> None:
    state = random_state(rules, rng, num_actions)
    for seat in range(rules.num_players):
        drawn = rules.resample(state, seat, rng)
        for each in (state, drawn):
            assert each.deck_size == sum(each.deck)
            count = Counter(card for hand in each.hands for card in hand)
            for card, copies in enumerate(rules.copies):
                color, rank = divmod(card, rules.num_ranks)
                built = each.fireworks[color] > rank
                left = each.deck[card] + each.discards[color][rank] + built
                assert count[card] + left == copies
            for hand, hints in zip(each.hands, each.hints, strict=True):
                bits = [rules.card_bits[card] for card in hand]
                assert all(b & hint == b for b, hint in zip(bits, hints, strict=True))


@given(st.sampled_from(GAMES), st.randoms(use_true_random=False), st.integers(0, 60))
def test_what_a_seat_knows_does_not_change_with_its_hand(
    rules: Hanabi, rng: random.Random, num_actions: int
) -> None:
    state = random_state(rules, rng, num_actions)
    for seat in range(rules.num_players):
        drawn = rules.resample(state, seat, rng)
        assert rules.information_state(drawn, seat) == rules.information_state(
            state, seat
        )
        assert rules.observe(drawn, seat) == rules.observe(state, seat)
        assert (rules.features(drawn, seat) == rules.features(state, seat)).all()


REFUSED: dict[str, list[Any]] = {
    "num_players": [1, 6],
    "num_colors": [0, 6],
    "num_ranks": [0, 6],
    "hand_size": [0, 11, 2.0, "3"],
    "max_information_tokens": [-1, 101],
    "max_life_tokens": [0, 101, True],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]]
)
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} from \d to \d+, got {value!r}"):
        Hanabi(**{name: value})


def test_a_deck_that_is_too_small_is_refused() -> None:
    message = (
        "hand_size 5 want 10 cards; num_colors 1 with num_ranks 3 make a deck of 6"
    )
    with pytest.raises(ValueError, match=message):
        Hanabi(num_colors=1, num_ranks=3)


def test_the_whole_deck_may_be_dealt() -> None:
    rules = Hanabi(num_colors=1, num_ranks=2, hand_size=2)
    state = play(rules=rules, deal=[0, 0, 0, 1])
    assert rules.current_player(state) == 0
    assert rules.max_turns == 2
