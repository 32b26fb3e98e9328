"""Entries of `games` with knobs: one game for each value, before anything is built."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from arena_envs.games.kuhn_poker import KuhnPoker
from arena_trainers import TurnGRPOConfig
from arena_trainers.train import GamePlan
from arena_trainers.train.game_entries import expanded


@dataclass(frozen=True)
class Refusing(KuhnPoker):
    """Kuhn poker with a knob whose second value it refuses."""

    knobs: ClassVar[Any] = {"num_players": (2, 9)}


REFUSING = f"{__name__}:Refusing"


def test_the_games_of_an_entry_have_names_and_share_its_weight(settings):
    entry = {"id": "guess_number", "params": {"max_guesses": 12}, "weight": 1.5}
    args = TurnGRPOConfig(
        **settings, games=["kuhn_poker", {**entry, "knobs": ["num_numbers"]}]
    )
    plans = [GamePlan(spec, args) for spec in args.games]
    assert [(plan.name, plan.weight) for plan in plans] == [
        ("kuhn_poker", 1.0),
        ("guess_number(max_guesses=12, num_numbers=20)", 0.5),
        ("guess_number(max_guesses=12, num_numbers=50)", 0.5),
        ("guess_number(max_guesses=12, num_numbers=100)", 0.5),
    ]
    assert expanded(args.games) == args.games


def test_several_knobs_give_all_combinations():
    rest = {"max_turns": 8, "opponents": "self"}
    found = expanded([{"id": "collaborative_maze", "knobs": True, **rest}])
    assert [entry["params"] for entry in found] == [
        {"size": size, "wall_percent": percent}
        for size in (3, 4, 5)
        for percent in (0, 15, 30, 45)
    ]
    assert all(entry == {**entry, **rest} for entry in found)


GUESS = {"id": "guess_number"}
FIXED = {"params": {"num_numbers": 30}}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"id": "kuhn_poker", "knobs": True}, "kuhn_poker has no knobs; leave knobs"),
        (
            {
                **GUESS,
                "params": {"num_numbers": 900, "max_guesses": 900},
                "knobs": True,
            },
            "guess_number has no knobs with these params; leave knobs out",
        ),
        (
            {**GUESS, "knobs": ["num_nubmers"]},
            "guess_number has no knob 'num_nubmers'; did you mean 'num_numbers'",
        ),
        ({**GUESS, "knobs": "num_numbers"}, "as true or a list of .*, got 'num_numb"),
        ({**GUESS, "knobs": []}, "want knobs of guess_number as true or a list"),
        ({**GUESS, **FIXED, "knobs": True}, "want num_numbers of .*, got it in both"),
        ({**GUESS, "knob": True}, "has no key 'knob', .* did you mean 'knobs'"),
        ({"game": "guess_number"}, "write id: guess_number"),
        ({"guess_number": {"limit": 9}}, r"write \{id: guess_number, params:"),
        ({"params": {}}, "add id: kuhn_poker"),
        (
            {"id": REFUSING, "knobs": True},
            r"refuses the values {'num_players': 9} of its knobs \(want an integer num_pl",
        ),
    ],
    ids=str,
)
def test_entries_that_do_not_fit_are_refused(entry, message):
    with pytest.raises(ValueError, match=message) as caught:
        expanded([entry])
    assert "\n" not in str(caught.value)


def test_too_many_combinations_are_refused(monkeypatch):
    many = {"num_players": (2, 3, 4), "num_cards": tuple(range(11))}
    monkeypatch.setattr(Refusing, "knobs", many)
    with pytest.raises(ValueError, match=r"want at most 30 combinations .*, got 33 of"):
        expanded([{"id": REFUSING, "knobs": True}])
