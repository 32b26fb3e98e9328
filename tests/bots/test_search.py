"""Search bots: what they find, what they cannot see, and how strong they are."""

import random
import statistics

import pytest

import arena_envs
from arena_envs.bots import make_bot
from arena_envs.solvers import minimax


def score_of(play, game, bots, num_games):
    """Mean return of seat 0, and its standard error."""
    scores = [game.returns(play(game, bots, seed)[-1])[0] for seed in range(num_games)]
    return statistics.mean(scores), statistics.stdev(scores) / num_games**0.5


TACTICS = [  # marks of x and o in turn, and what is to be done
    (("a1", "a2", "b1", "b2"), "c1"),  # win, though o threatens c2
    (("a1", "b2", "b1"), "c1"),  # block
    (("b2",), {"a1", "c1", "a3", "c3"}),  # an edge would lose
    (("a1",), {"b2"}),  # everything else would lose
]


@pytest.mark.parametrize("spec", ["mcts:2000", "ismcts:2000", "minimax"])
@pytest.mark.parametrize(("texts", "want"), TACTICS)
def test_search_finds_what_must_be_done(spec, texts, want, after):
    game, state = after("tic_tac_toe", *texts)
    found = game.action_text(state, make_bot(spec)(game, state, random.Random(0)))
    assert found in (want if isinstance(want, set) else {want})


@pytest.mark.parametrize("seat", [0, 1])
def test_mcts_does_not_lose_tic_tac_toe(seat, play):
    game = arena_envs.make_game("tic_tac_toe")
    bots = [make_bot("minimax"), make_bot("minimax")]
    bots[seat] = make_bot("mcts:1000")
    for seed in range(3):
        assert game.returns(play(game, bots, seed)[-1]) == (0.0, 0.0)


@pytest.mark.parametrize("spec", ["mcts:9", "ismcts:9"])
def test_search_draws_among_actions_that_were_visited_equally_often(spec, toys):
    """Nine actions that are worth the same, each tried once."""
    root = toys.Choice(0, "root", ((0.0, 0.0),) * 9)
    game = toys.TreeGame(root, information="perfect")
    bot = make_bot(spec)
    played = [bot(game, root, random.Random(seed)) for seed in range(200)]
    assert min(played.count(action) for action in range(9)) > 10


def test_more_simulations_are_stronger(play):
    game = arena_envs.make_game("nim")
    strong, weak = make_bot("mcts:200"), make_bot("mcts:2")
    mean, error = score_of(play, game, [weak, strong], 60)
    assert mean < -5 * error


def test_proofs_stop_the_search():
    """With few stones left all is known, so any number of simulations takes no time."""
    game = arena_envs.make_game("nim", pile_sizes=(1, 2))
    state = game.initial_state()
    found = make_bot("mcts:1000000000")(game, state, random.Random(0))
    best = minimax(game, state)
    after = game.apply(state, found)
    assert minimax(game, after).returns == best.returns


def test_chance_is_weighed_by_its_probabilities(toys):
    """A certain 1 against 3 in a quarter of all cases, at worst 0: 3/4."""
    gamble = toys.Draw((0.25, 0.75), ((3.0, -3.0), (0.0, 0.0)))
    root = toys.Choice(0, "root", (gamble, (1.0, -1.0)))
    game = toys.TreeGame(root, information="perfect", min_return=-3.0, max_return=3.0)
    for spec in ("mcts:300", "ismcts:300", "minimax"):
        assert make_bot(spec)(game, root, random.Random(0)) == 1


def test_three_players_each_look_after_themselves(toys):
    """Seat 1 would take 2 for itself, which leaves seat 0 nothing."""
    trap = toys.Choice(1, "trap", ((5.0, 0.0, 5.0), (0.0, 2.0, 0.0)))
    root = toys.Choice(0, "root", (trap, (1.0, 1.0, 1.0)))
    game = toys.TreeGame(
        root,
        information="perfect",
        num_players=3,
        zero_sum=False,
        min_return=0.0,
        max_return=5.0,
    )
    for spec in ("mcts:500", "ismcts:500", "minimax"):
        assert make_bot(spec)(game, root, random.Random(0)) == 1


@pytest.mark.parametrize(
    ("id", "num_states"), [("kuhn_poker", 12), ("leduc_poker", 60)]
)
def test_ismcts_sees_no_more_than_its_seat(id, num_states, play):
    """It does the same in all states that its seat cannot tell apart."""
    game, bot = arena_envs.make_game(id), make_bot("ismcts:30")
    num_checked, seed = 0, 0
    while num_checked < num_states:
        seed += 1
        for state in play(game, [make_bot("random")] * 2, seed):
            seat = game.current_player(state)
            if seat < 0:
                continue
            other = game.resample(state, seat, random.Random(seed))
            if other != state:
                num_checked += 1
                actions = [bot(game, s, random.Random(7)) for s in (state, other)]
                assert actions[0] == actions[1]


def test_ismcts_calls_with_a_king_and_folds_a_jack():
    game, bot = arena_envs.make_game("kuhn_poker"), make_bot("ismcts:500")
    for card, want in ((2, 1), (0, 0)):
        state = game.initial_state()
        for action in (1, card, 1):
            state = game.apply(state, action)
        for seed in range(5):
            assert bot(game, state, random.Random(seed)) == want


@pytest.mark.parametrize(
    ("id", "num_games"),
    [
        pytest.param("leduc_poker", 300, marks=pytest.mark.slow),
        ("goofspiel", 40),
    ],
)
def test_ismcts_beats_random_play(id, num_games, play):
    game = arena_envs.make_game(id)
    bots = [make_bot("ismcts:50"), *[make_bot("random")] * (game.num_players - 1)]
    mean, error = score_of(play, game, bots, num_games)
    assert mean > 3 * error


MATCHES = [
    ("tic_tac_toe", 30, 100),
    pytest.param("connect_four", 100, 100, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("id", "num_simulations", "num_pairs"), MATCHES)
def test_mcts_is_as_strong_as_openspiels(id, num_simulations, num_pairs):
    """At equal simulations the mean score is within its 95% interval of 0."""
    pyspiel = pytest.importorskip("pyspiel")
    import numpy as np
    from open_spiel.python.algorithms import mcts

    game, their_game = arena_envs.make_game(id), pyspiel.load_game(id)
    ours = make_bot(f"mcts:{num_simulations}")

    def score(seat, seed):
        rng, their_rng = random.Random(seed), np.random.RandomState(seed)
        evaluator = mcts.RandomRolloutEvaluator(1, their_rng)
        theirs = mcts.MCTSBot(
            their_game, 2, num_simulations, evaluator, random_state=their_rng
        )
        state, other = game.initial_state(), their_game.new_initial_state()
        while not other.is_terminal():
            mine = other.current_player() == seat
            action = ours(game, state, rng) if mine else theirs.step(other)
            state = game.apply(state, action)
            other.apply_action(action)
        return other.returns()[seat]

    scores = [score(seat, seed) for seed in range(num_pairs) for seat in (0, 1)]
    error = statistics.stdev(scores) / len(scores) ** 0.5
    assert abs(statistics.mean(scores)) < 1.96 * error
