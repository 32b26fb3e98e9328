"""One declaration of an option: type, choices, default, least value, text and group."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from arena_trainers import TurnGRPOConfig
from arena_trainers.options import check_declared, option, options_of
from arena_trainers.runs import JobConfig
from arena_trainers.runs.round_settings import EvaluateStage, Loop, PlayStage
from arena_trainers.runs.row_settings import RowConfig
from arena_trainers.train.settings import SelfPlay


@dataclass(frozen=True)
class Brew:
    """How coffee is made."""

    cups: int = option(
        2, help="Number of cups. More than ten need two pots.", group="Water", least=1
    )
    heat: Literal["low", "high"] | None = option(
        None, help="Heat of the plate.", group="Water"
    )
    beans: list[str] = option(["arabica"], help="Names of beans.", group="Beans")

    def __post_init__(self):
        check_declared(self)


def test_a_field_declares_all_of_an_option():
    options = options_of(Brew)
    assert options["cups"].help == "Number of cups. More than ten need two pots."
    assert [o.group for o in options.values()] == ["Water", "Water", "Beans"]
    assert (options["heat"].choices, options["cups"].least) == (("low", "high"), 1)


def test_a_mutable_default_is_not_shared():
    Brew().beans.append("robusta")
    assert Brew().beans == ["arabica"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cups": 0}, "want cups of at least 1, got 0"),
        ({"cups": True}, "want an integer as cups, got True"),
        ({"cups": None}, "want an integer as cups, got None"),
        ({"heat": "hihg"}, "unknown heat 'hihg'; did you mean 'high'?"),
        ({"beans": 3}, "want a list as beans, got 3"),
    ],
)
def test_a_value_that_breaks_its_declaration_is_refused(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Brew(**given)


@pytest.mark.parametrize(
    "declared", [SelfPlay, JobConfig, RowConfig, PlayStage, EvaluateStage, Loop]
)
def test_the_help_of_every_option_is_sentences(declared: Any):
    for name, declaration in options_of(declared).items():
        assert declaration.help.endswith("."), name
        assert declaration.help[0].isupper(), name


def test_options_in_the_parentheses_of_credit_fill_credit_args(tmp_path):
    args = TurnGRPOConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        bf16=False,
        credit="mars(discount=0.5)",
        credit_args={"pool": ["seat"]},
    )
    assert args.credit == "mars"
    assert args.credit_args == {"pool": ["seat"], "discount": 0.5}
