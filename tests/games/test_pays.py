"""Games declare when they pay, with every number of rounds."""

import pytest

from arena_envs import make_game
from arena_envs.testing import draw_sample
from arena_envs.testing.rules import check_pays

ROUNDS = (
    *(
        "donor_game",
        "iterated_matrix_game",
        "persuasion",
        "public_goods",
        "referential",
    ),
    *("say_select", "secret_keeper", "social_dilemma"),
)
SINGLE = [
    *((name, {"num_rounds": 1}) for name in ROUNDS),
    ("auction", {"items": ((3, 1, 0),)}),
    ("hanabi", {"num_colors": 1, "num_ranks": 1, "hand_size": 1}),
]


@pytest.mark.parametrize(("name", "params"), SINGLE)
def test_what_has_one_payment_pays_at_the_end(name, params):
    game = make_game(name, **params)
    check_pays(draw_sample(game, 10, 0))
    assert game.pays == "end"
    assert make_game(name).pays == "on_the_way"
