"""`arena credit suggest`: kinds of games, and the advice for them."""

import pytest
from typer.testing import CliRunner

from arena_credit.by_name import BUILT_IN
from arena_credit.claims import claims
from arena_credit.needs import needs
from arena_envs import make_game
from arena_trainers import TurnGRPOConfig
from arena_trainers.cli.declared_credit import declared_lines, fitting_estimators
from arena_trainers.cli.game_facts import DEFAULT, Facts, facts_of
from arena_trainers.cli.main import app
from arena_trainers.cli.suggest import SHIPPED, Advice, MeanDifference, read_advice
from credit_bench import write_advice


@pytest.mark.parametrize(
    ("game", "facts"),
    [
        ("kuhn_poker", Facts(2, False, 2, False, True, True)),
        ("rock_paper_scissors", Facts(2, False, 1, False, False, False)),
        ("mini_hanabi", Facts(2, True, 4, True, True, True)),
        ("iterated_prisoners_dilemma", Facts(2, False, 10, True, False, False)),
        ("blackjack", Facts(1, False, 3, False, True, True)),
        ("bargaining", Facts(2, False, 6, False, True, True)),
    ],
)
def test_random_play_finds_the_kind_of_a_game(game, facts):
    assert facts_of(make_game(game)) == facts


def suggested(*arguments):
    return CliRunner().invoke(app, ["credit", "suggest", *arguments])


def test_the_command_prints_it_for_games_and_recipes(tmp_path):
    shipped = read_advice(SHIPPED)
    kuhn, small = shipped.games[:2]
    better = {"settings": "credit: rloo", "take": "rloo", "lead": "rloo"}
    gains = {
        "rloo": MeanDifference(0.2, 0.01, 0.0),
        "control_variates": MeanDifference(0, 0.01, 1),
    }
    own = kuhn._replace(**better, gains=gains)
    write_advice(tmp_path / "advice.json", Advice([own, small], shipped.limits))
    where = ["--directory", str(tmp_path)]
    by_game = suggested("--games", "kuhn_poker", *where).output
    assert (
        "Best level and pool there: credit: rloo\n    Gain over mars (game, seat): +0.200 ± 0.010, p < 0"
        in by_game
    )
    by_recipe = suggested("--recipe", "kuhn-tiny", *where).output
    assert "The recipe's control_variates gains +0.000" in by_recipe
    assert by_recipe.splitlines()[0] == by_game.splitlines()[0] + ", groups of 8"
    recipe = tmp_path / "pairs.yaml"
    recipe.write_text("games: [kuhn_poker]\nnum_generations: 2\n")
    pairs = suggested("--recipe", str(recipe), *where).output
    assert pairs.splitlines()[0].endswith("with chance, groups of 2")
    assert "Measured on Kuhn poker, small groups (groups of 2), the same game." in pairs
    both = suggested("--games", "kuhn_poker", "--games", "nim", *where).output
    assert both.startswith(by_game.splitlines()[0])
    assert "\nnim: " in both


def test_the_default_that_is_advised_is_the_trainers():
    assert TurnGRPOConfig.credit == DEFAULT


def test_a_game_whose_runs_are_missing_has_no_advice(tmp_path):
    shipped = read_advice(SHIPPED)
    games = [shipped.games[0]._replace(missing=3)]
    write_advice(tmp_path / "advice.json", Advice(games, shipped.limits))
    output = suggested("--games", "kuhn_poker", "--directory", str(tmp_path)).output
    assert "No result: 3 runs are missing; run python benchmarks/credit_b" in output
    assert "Best level" not in output


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "advice.json").write_text('{"games": [{}]}')
    done = suggested("--games", "kuhn_poker", "--directory", str(tmp_path))
    assert "got a damaged file (KeyError: 'gains'); write it again" in str(
        done.exception
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "want either --games or --recipe, got neither"),
        (["--games", "nim", "--recipe", "kuhn-tiny"], "or --recipe, got both"),
        (["--games", "chess,kuhn"], "kuhn"),
        (["--recipe", "no-such-recipe"], "want a recipe file"),
        (
            ["--games", "chess", "--directory", "nowhere"],
            "found no file; run python benchmarks/credit_bench.py",
        ),
    ],
)
def test_bad_input_is_named(arguments, message):
    done = suggested(*arguments)
    assert done.exit_code != 0
    assert message in str(done.exception)


def test_an_estimator_that_nobody_compared_is_suggested_where_its_declaration_fits(
    monkeypatch,
):
    @claims(
        bias_two="reversed",
        bias_infinite="exact",
        bias_shared_chance="exact",
        noise=0.5,
    )
    @needs("value")
    def newest(turns):
        """Credits a turn. See https://example.org/paper."""

    monkeypatch.setitem(BUILT_IN, "newest", newest)
    facts = facts_of(make_game("kuhn_poker"))
    (fitting,) = (e for e in fitting_estimators(facts) if e.name == "newest")
    assert fitting[1:] == ("exact", 0.5, 100.0, "features", "https://example.org/paper")
    small = fitting_estimators(facts._replace(group=2))
    assert "newest" not in {estimator.name for estimator in small}
    (line,) = (
        x for x in declared_lines({"kuhn_poker": facts}, ["rloo"]) if "newest" in x
    )
    assert line.split()[0] == "newest*"


def test_no_biased_estimator_is_among_those_that_fit():
    fitting = fitting_estimators(facts_of(make_game("kuhn_poker")))
    assert {"rloo", "control_variates"} <= {e.name for e in fitting if e.critic is None}
    assert not {"normalise_then_sum", "mt_grpo", "adca"} & {e.name for e in fitting}
