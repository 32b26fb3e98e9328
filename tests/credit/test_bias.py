"""Expected gradients by exact enumeration, against the gradient of the exact value.

The toy: a player continues with probability p = sigmoid(θ), or stops. After continuing there
is a second turn, without a choice that matters, which is paid 1. The score is 1 - p for
continuing and -p for stopping, and the true gradient p(1-p). An infinite batch needs no
sampling: it is a batch in which both happen exactly as often as they are likely.
"""

import itertools
import math

import numpy as np
import pytest

from arena_credit import estimate

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
PROBABILITIES = [0.3, 0.5, 0.8]
POPULATION = {"ddof": 0, "eps": 0.0}
CENTRE_THEN_SUM = {"pool": ("game", "seat"), "scale": "none"}
OFF = {"whiten_rewards": False, "whiten_advantages": False}


def gradient(batch, p, continues, name, paid=1.0, stop=0.0, **options):
    """Mean of score times advantage of the first turn, over the episodes of a batch."""
    rows = [(i, 0, 0, [0.0, paid] if c else [stop]) for i, c in enumerate(continues)]
    turns = batch(*rows)
    advantage = estimate(name, turns, **options).advantage[turns.turn == 0]
    return np.mean(np.where(continues, 1 - p, -p) * advantage)


def infinite(batch, p, name, **options):
    continues = [i < round(10 * p) for i in range(10)]
    return gradient(batch, p, continues, name, **options)


def expected(batch, p, size, name, **options):
    """The mean over all batches of `size` episodes, each as often as it is likely."""
    total = 0.0
    for continues in itertools.product([True, False], repeat=size):
        weight = np.prod([p if c else 1 - p for c in continues])
        total += weight * gradient(batch, p, continues, name, **options)
    return total


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mars", {}),
        ("mars", {"baseline": "episode_returns"}),
        ("mars", {"pool": ("game",)}),
        ("episode", {"scale": "none"}),
    ],
)
def test_large_batches_are_unbiased(batch, p, name, options):
    got = infinite(batch, p, name, **options)
    np.testing.assert_allclose(got, p * (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
def test_dividing_by_the_deviation_scales_the_gradient(batch, p):
    """Episode returns deviate by √(p(1-p)); of 1 + p turn returns 2p are 1."""
    got = infinite(batch, p, "episode", **POPULATION)
    np.testing.assert_allclose(got, np.sqrt(p * (1 - p)))
    share = 2 * p / (1 + p)
    got = infinite(batch, p, "mars", scale="std", **POPULATION)
    np.testing.assert_allclose(got, p * (1 - p) / np.sqrt(share * (1 - share)))


@pytest.mark.parametrize(
    ("p", "known"), [(0.3, 0.161538), (0.5, 1 / 6), (0.8, 0.088889)]
)
def test_centring_before_summing_charges_for_every_further_turn(batch, p, known):
    got = infinite(batch, p, "normalise_then_sum", **CENTRE_THEN_SUM)
    np.testing.assert_allclose(got, p * (1 - p) / (1 + p))
    np.testing.assert_allclose(got, known, atol=1e-6)
    released = infinite(batch, p, "mars_released", **OFF)
    np.testing.assert_allclose(released, got)


@pytest.mark.parametrize(
    ("name", "options", "sign"),
    [
        ("normalise_then_sum", CENTRE_THEN_SUM, -1),
        ("normalise_then_sum", {}, -1),
        ("mars_released", OFF, -1),
        ("mars_released", {}, -1),
        ("mars", {}, 1),
        ("mars", {"scale": "std"}, 1),
        ("episode", {}, 1),
    ],
)
def test_centring_before_summing_has_the_wrong_sign_where_stopping_pays_a_little_less(
    batch, name, options, sign
):
    """Continuing pays 1.2 and stopping 1: the true gradient is .25 · .2 = .05. The mean
    turn reward is 2.2 / 3, so that continuing seems to pay 1.2 - 2 · .733, stopping .267."""
    got = infinite(batch, 0.5, name, paid=1.2, stop=1.0, **options)
    assert np.sign(got) == sign
    if name == "mars" and not options:
        assert got == pytest.approx(0.05)


def test_discounting_weighs_late_rewards_less(batch):
    assert infinite(batch, 0.5, "mars", discount=0.9) == pytest.approx(0.9 * 0.25)
    got = expected(batch, 0.5, 1, "rae", discount=0.9)
    assert got == pytest.approx(0.9 * 0.25)


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "options", "factor"),
    [
        ("mars_loo", {}, 1.0),
        ("mars_loo", {"baseline": "episode_returns"}, 1.0),
        ("mars_loo", {"pool": ("game",)}, 1.0),
        ("rae", {}, 1.0),
        ("rae", {"state": {"pool": ["game", "seat"], "baselines": [[0, 0, 0.7]]}}, 1.0),
        ("rae", {"order": "post"}, 0.95),
    ],
)
def test_small_batches_are_unbiased(batch, p, size, name, options, factor):
    got = expected(batch, p, size, name, **options)
    np.testing.assert_allclose(got, factor * p * (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("name", "options"),
    [("mars", {"baseline": "episode_returns"}), ("episode", {"scale": "none"})],
)
def test_a_mean_with_the_own_episode_shrinks_the_gradient(
    batch, p, size, name, options
):
    got = expected(batch, p, size, name, **options)
    np.testing.assert_allclose(got, (1 - 1 / size) * p * (1 - p))


@pytest.mark.parametrize(("size", "known"), [(2, 0.125), (4, 0.190), (8, 0.221)])
def test_a_mean_of_turn_returns_shrinks_about_as_much(batch, size, known):
    assert expected(batch, 0.5, size, "mars") == pytest.approx(known, abs=0.0005)


# Two players. Player 0 chooses a, player 1 sees it and chooses b; after a = 1, player 0
# sees b and chooses c. What each turn is paid is arbitrary.

FIRST = {0: 0.5, 1: -0.25}
SECOND = {(0, 0): 1.0, (0, 1): -2.0, (1, 0): 0.5, (1, 1): 1.5}
THIRD = {(0, 0): 2.0, (0, 1): -1.0, (1, 0): 0.25, (1, 1): 3.0}
PATHS = [(0, 0), (0, 1), *((1, b, c) for b in (0, 1) for c in (0, 1))]
CHOICES = ["a", ("b", 0), ("b", 1), ("c", 0), ("c", 1)]  # each with its own θ


def chosen(path):
    """(whose choice, seat, action) along a path, in playing order."""
    places = ("a", ("b", path[0]), ("c", path[1]))
    return list(zip(places, (0, 1, 0), path, strict=False))


def paid(path):
    """Rewards of the turns of each seat."""
    first = [FIRST[path[0]], *([THIRD[path[1:]]] if len(path) == 3 else [])]
    return {0: first, 1: [SECOND[path[:2]]]}


def likelihood(path, theta):
    p = {choice: 1 / (1 + np.exp(-value)) for choice, value in theta.items()}
    return np.prod([p[w] if action else 1 - p[w] for w, _, action in chosen(path)])


def true_gradient(theta):
    """By central differences of the exact value of the seat that chooses."""

    def value(changed, seat):
        return sum(likelihood(path, changed) * sum(paid(path)[seat]) for path in PATHS)

    step, gradient = 1e-5, []
    for choice in CHOICES:
        seat = int(choice[0] == "b")
        high, low = (theta | {choice: theta[choice] + d} for d in (step, -step))
        gradient.append((value(high, seat) - value(low, seat)) / (2 * step))
    return np.array(gradient)


def estimated_gradient(batch, paths, theta, name, **options):
    rows = [
        (i, 0, seat, rs)
        for i, path in enumerate(paths)
        for seat, rs in paid(path).items()
    ]
    turns = batch(*rows)
    advantage = estimate(name, turns, **options).advantage
    keys = zip(turns.episode, turns.seat, turns.turn, strict=True)
    of_turn = dict(zip(keys, advantage, strict=True))
    gradient = np.zeros(len(CHOICES))
    for i, path in enumerate(paths):
        played = {0: 0, 1: 0}
        for choice, seat, action in chosen(path):
            p = 1 / (1 + np.exp(-theta[choice]))
            score = action - p
            gradient[CHOICES.index(choice)] += score * of_turn[i, seat, played[seat]]
            played[seat] += 1
    return gradient / len(paths)


UNIFORM = dict.fromkeys(CHOICES, 0.0)
UNEVEN = dict(zip(CHOICES, (0.4, -1.0, 0.7, 1.5, -0.3), strict=True))


@pytest.mark.parametrize("theta", [UNIFORM, UNEVEN], ids=["uniform", "uneven"])
@pytest.mark.parametrize(
    ("name", "options", "factor"),
    [
        ("mars_loo", {}, 1.0),
        ("mars_loo", {"pool": ("game",)}, 1.0),
        ("rae", {}, 1.0),
        ("rae", {"order": "post"}, 0.95),
    ],
)
def test_pairs_of_games_of_two_players_are_unbiased(
    batch, theta, name, options, factor
):
    got = np.zeros(len(CHOICES))
    for pair in itertools.product(PATHS, repeat=2):
        weight = np.prod([likelihood(path, theta) for path in pair])
        got += weight * estimated_gradient(batch, pair, theta, name, **options)
    np.testing.assert_allclose(got, factor * true_gradient(theta), atol=1e-8)


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


@pytest.mark.parametrize(
    ("name", "options"),
    [("mars", {}), ("mars", {"pool": ("game",)}), ("episode", {"scale": "none"})],
)
def test_large_batches_of_two_players_are_unbiased(batch, name, options):
    """All paths of uniform play, as often as they are likely."""
    paths = [
        path for path in PATHS for _ in range(round(8 * likelihood(path, UNIFORM)))
    ]
    got = estimated_gradient(batch, paths, UNIFORM, name, **options)
    np.testing.assert_allclose(got, true_gradient(UNIFORM), atol=1e-8)


@pytest.mark.parametrize(
    ("name", "options"),
    [("normalise_then_sum", CENTRE_THEN_SUM), ("mars_released", OFF)],
)
def test_centring_before_summing_points_elsewhere_in_games_of_two_players(
    batch, name, options
):
    paths = [
        path for path in PATHS for _ in range(round(8 * likelihood(path, UNIFORM)))
    ]
    got = estimated_gradient(batch, paths, UNIFORM, name, **options)
    assert cosine(got, true_gradient(UNIFORM)) < 0.99


@pytest.mark.parametrize(("size", "known"), [(2, 0.5), (4, 0.11), (8, -0.077)])
def test_mars_can_be_wrong_in_direction_where_play_decides_the_length(
    batch, size, known
):
    """Stop pays 10, going on pays 10 and then -1: the true gradient is -1/4. Long
    trajectories weigh more in a mean over turns; whole episodes left out, or counted once,
    do not have the fault.
    """

    def of(name, **options):
        total = 0.0
        for continues in itertools.product([True, False], repeat=size):
            rows = [
                (i, 0, 0, [10.0, -1.0] if c else [10.0])
                for i, c in enumerate(continues)
            ]
            turns = batch(*rows)
            advantage = estimate(name, turns, **options).advantage[turns.turn == 0]
            total += np.mean(np.where(continues, 0.5, -0.5) * advantage) / 2**size
        return total

    np.testing.assert_allclose(of("mars"), known, atol=0.01)
    np.testing.assert_allclose(of("mars_loo"), -0.25)
    shrunk = of("mars", baseline="episode_returns")
    np.testing.assert_allclose(shrunk, -0.25 * (1 - 1 / size))


@pytest.mark.parametrize(("size", "known"), [(2, 0.106), (4, 0.162), (8, 0.104)])
def test_z_scores_of_small_pools_prefer_what_wins_often(batch, size, known):
    """A pays 1; B pays 10 with chance 0.2: the true gradient, for A, is (1 - 2)/4."""
    outcomes = [(0.5, 0.5, 1.0), (-0.5, 0.4, 0.0), (-0.5, 0.1, 10.0)]

    def of(**options):
        total = 0.0
        for drawn in itertools.combinations_with_replacement(range(3), size):
            count = [drawn.count(i) for i in range(3)]
            ways = math.factorial(size) / math.prod(map(math.factorial, count))
            chance = ways * math.prod(outcomes[i][1] for i in drawn)
            turns = batch(*[(i, 0, 0, [outcomes[d][2]]) for i, d in enumerate(drawn)])
            score = np.array([outcomes[d][0] for d in drawn])
            total += chance * np.mean(
                score * estimate("episode", turns, **options).advantage
            )
        return total

    np.testing.assert_allclose(of(), known, atol=0.002)
    np.testing.assert_allclose(of(scale="none"), -0.25 * (1 - 1 / size))


@pytest.mark.parametrize(
    "name", ["mars_loo", "rloo", "random_effects", "control_variates"]
)
def test_leaving_out_the_tree_keeps_trees_unbiased(batch, name):
    """Two trees of an episode, actions a and b, and a second b from the same a; b is paid
    1 + 3a + 2ab, and chosen with chance q. What a earns is p(1-p)(3 + 2q).

    A baseline of all other episodes would hold what the candidate was paid, which a moves.
    """
    p, q = 0.3, 0.6
    found = shared = 0.0
    for drawn in itertools.product([0, 1], repeat=6):
        trees = drawn[:3], drawn[3:]
        chances = [p if a else 1 - p for a, _, _ in trees]
        chances += [q if b else 1 - q for _, *both in trees for b in both]
        rows, parents = [], []
        for number, (a, *both) in enumerate(trees):
            first, second = (1 + 3 * a + 2 * a * b for b in both)
            rows += [(2 * number, 0, 0, [0, first]), (2 * number + 1, 0, 0, [second])]
            parents += [-1, -1, 2 * number]
        score = np.array([1 - p if a else -p for a, _, _ in trees])
        turns = batch(*rows, parent=parents)
        roots = (turns.turn == 0) & (turns.parent < 0)
        advantage = estimate(name, turns).advantage[roots]
        found += np.prod(chances) * np.mean(score * advantage)
        alone = batch(*rows)
        advantage = estimate(name, alone).advantage[roots]
        shared += np.prod(chances) * np.mean(score * advantage)
    np.testing.assert_allclose(found, p * (1 - p) * (3 + 2 * q))
    assert abs(shared - found) > 0.1
