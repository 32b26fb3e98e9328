"""The bench of intervals runs, and its cells hold the mean."""

import json

import interval_coverage as bench


def test_rows_of_skewed_and_sparse_laws_hold_the_mean(monkeypatch):
    monkeypatch.setattr(bench, "SIZES", (12, 50))
    laws = bench.fixed_laws()
    for name in ("rare loss", "slips"):
        rows = list(bench.rows_of(name, laws[name], num_runs=100))
        assert [row["n"] for row in rows] == [12, 50]
        assert all(row["coverage"] >= 0.93 for row in rows)
        assert rows[0]["student_coverage"] < 0.8
        json.dumps(rows)


def test_rows_under_stopping_hold_the_mean_where_students_interval_does_not(
    monkeypatch,
):
    monkeypatch.setattr(bench, "NUM_STOPPING", 150)
    row = bench.stopping_row("poker", bench.fixed_laws()["poker"], num_runs=60)
    assert row["coverage"] >= 0.93 > 0.85 > row["student_coverage"]


def test_the_luck_taken_out_of_games_leaves_less_variance():
    returns, adjusted = bench.leduc_games("kuhn_poker", "random", "random", 100)
    assert adjusted.var() < 0.6 * returns.var()
