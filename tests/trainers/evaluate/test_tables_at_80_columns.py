"""Tables on a terminal of 80 columns are complete; captions explain scores."""

from dataclasses import replace

import pytest

from arena_eval import Evaluation, ResultRow, evaluate
from arena_eval.tables import (
    SCORE,
    as_table,
    evaluation_tables,
)
from arena_eval.tournament import play_tournament
from arena_eval.tournament.round_robin import tournament_tables
from arena_trainers.cli.output import drawn, plain
from arena_trainers.terminal import Console
from arena_wrappers import ScriptedPolicy

LONG = "a_name_of_20_letters"
OTHER = "noisy:0.25(minimaxi)"


def row(policy=LONG, role="policy", seat=0, mean=-12.345, **changes):
    found = ResultRow(
        policy=policy,
        role=role,
        opponent=OTHER,
        seat=seat,
        num_episodes=1000,
        num_distinct=999,
        mean_return=mean,
        low=mean - 0.5,
        high=mean + 0.5,
        wins=0.33,
        draws=0.33,
        losses=0.34,
        invalid={"illegal": 0.123, "no_answer": 0.4},
        num_turns=12.3,
        num_tokens=123.4,
        score=-123.4,
        score_interval=(-150.0, -100.0),
    )
    return replace(found, **changes)


def evaluation(*rows, known_value=""):
    return Evaluation("goofspiel-v0", {"num_cards": 4}, known_value, rows)


def beside(solver, mean=5.0, **changes):
    """A policy, uniform play at 0 and a solver at `mean`, with intervals of ±0.5."""
    return evaluation(
        row(mean=2.5, score=50.0, **changes),
        row("random", "uniform", mean=0.0, score=0.0),
        row(solver, "solver", mean=mean, score=100.0),
    )


def lines_of(tables, width=80):
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        for table in tables:
            console.print(drawn(table))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in capture.get()
    return [line.rstrip() for line in lines]


def test_an_evaluation_at_80_columns_keeps_policy_opponent_seat_return_and_interval():
    rows = (
        row(),
        row(seat=1),
        row("random", "uniform"),
        row("cfr", "solver", mean=9.0),
    )
    lines = lines_of(evaluation_tables(evaluation(*rows), 80))
    assert lines[0] == f"goofspiel-v0 (num_cards=4) against {OTHER}"
    words = [line.split() for line in lines]
    interval = ["-12.345", "-12.845", "to", "-11.845"]
    counted = ["1000", "(999)", *interval]
    assert [LONG, "0", *counted] in [found[:8] for found in words]
    assert ["1", *counted] in [found[:7] for found in words]
    assert any("52.3%" in line for line in lines)
    invalid = f"invalid replies against {OTHER}: illegal 12.3%, no_answer 40.0%"
    assert invalid in lines


def test_each_opponent_has_a_table_and_captions_stand_under_the_last():
    known = (
        "the second player wins; this is a line as long as pages have them, of 80 x's"
    )
    rows = row(), row(opponent="cfr")
    found = evaluation(*rows, known_value=known)
    first, second = evaluation_tables(found, 80)
    assert OTHER in str(first.title)
    assert "against cfr" in str(second.title)
    assert first.caption is None
    assert str(second.caption).splitlines()[0] == f"Known value: {known}"


def test_wide_terminals_show_turns_and_tokens():
    lines = lines_of(evaluation_tables(evaluation(row(), row(seat=1)), 120), 120)
    assert {"turns", "tokens"} <= {word for line in lines for word in line.split()}


@pytest.mark.parametrize("name", ["lm:" + "x" * 200, "[/b][bold]", "two\nlines"])
def test_names_of_any_kind_leave_numbers_whole(name):
    lines = lines_of(evaluation_tables(evaluation(row(name), row(name, seat=1)), 80))
    assert sum("-12.845 to -11.845" in line for line in lines) == 2


def test_a_piped_evaluation_has_all_columns_and_one_line_for_each_remark():
    found = beside("mcts:100", measures={"fairness": (0.5, 0.4, 0.6, 10)})
    (table,) = evaluation_tables(replace(found, known_value="a draw"), None)
    _, heads, *lines = plain(table).splitlines()
    assert len(heads.split("\t")) == 13
    assert lines[3:] == [
        "# Known value: a draw",
        f"# {SCORE}",
        "# mcts:100 is a search, not a solver",
        f"# fairness in seat 0 against {OTHER}: 0.500 (0.400 to 0.600; n = 10)",
    ]


@pytest.mark.parametrize("name", ["ismcts:100", "hanabi_convention"])
def test_the_caption_says_which_baseline_is_no_solver(name):
    kind = {"ismcts:100": "search", "hanabi_convention": "heuristic"}[name]
    assert f"{name} is a {kind}, not a solver" in str(as_table(beside(name)).caption)
    assert "not a solver" not in str(as_table(beside("minimax")).caption)


def test_a_row_without_a_score_has_a_dash_and_the_reason_below():
    reason = "uniform random play is a best response"
    bare = row(seat=1, score=None, score_interval=None, no_score=reason)
    table = as_table(evaluation(row(), bare))
    cells = [line.split("\t")[8] for line in plain(table).splitlines()[2:4]]
    assert cells == ["-123.4 (-150 to -100)", "-"]
    assert f"score -: {reason} (seat 1 against {OTHER})" in str(table.caption)
    (narrow,) = evaluation_tables(evaluation(bare), 80)
    assert f"score -: {reason}" in str(narrow.caption).splitlines()


def test_no_number_is_shown_as_minus_zero():
    tiny = row(
        mean=-1e-9,
        score=-1e-9,
        score_interval=(-1e-9, -1e-9),
        low=-1e-9,
        high=-1e-9,
    )
    solver = row("cfr", "solver", mean=9.0, score=100.0)
    found = evaluation(tiny, row("random", "uniform", mean=0.0), solver)
    texts = [plain(as_table(found)), *lines_of(evaluation_tables(found, 80))]
    assert not any("-0.0" in text for text in texts)


def test_a_tournament_at_80_columns_breaks_no_names_and_no_intervals():
    names = [f"policy_of_20_letter{i}" for i in range(4)]
    policies = [
        ScriptedPolicy(lambda request: request.wrap(request.legal[0]), name=n)
        for n in names
    ]
    found = play_tournament(policies, ["nim"], 1)
    lines = lines_of(tournament_tables(found, 80))
    words = [word for line in lines for word in line.split()]
    # rows and a column of payoffs, rows of ratings; payoffs need two tables
    assert [words.count(name) for name in names] == [4, 4, 4, 4]
    cells = [cell for one in found.games[0].payoffs for cell in one if cell]
    for cell in cells:
        interval = f"{cell.low:z.3f} to {cell.high:z.3f}"
        assert any(interval in line for line in lines)
    piped = plain(tournament_tables(found)[0]).splitlines()
    assert piped[1].split("\t") == ["", *names]


def test_a_game_of_one_seat_names_no_opponent():
    found = evaluate("first", "guess_number", ["random", "first"], 2, baselines=False)
    assert [row.opponent for row in found.rows] == [""]
    shown = as_table(found)
    assert "against" not in [column.header for column in shown.columns]
    assert "success in seat 0: " in str(shown.caption)
    (narrow,) = evaluation_tables(found, 80)
    assert str(narrow.title).endswith("split='train')")
