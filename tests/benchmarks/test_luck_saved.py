"""The bench of what adjusted means are worth runs, and its page shows its rows."""

import json
from pathlib import Path

import luck_saved as bench

ROOT = Path(__file__).parents[2]


def test_rows_have_the_worth_in_all_games_and_in_parts():
    case = bench.Case("kuhn_poker", "noisy:0.5(cfr:20)", "cfr:20", ("solver",), 100)
    unknown, known = bench.rows_of(case)
    assert unknown["low"] <= unknown["worth"] <= unknown["high"]
    assert 3 < unknown["worth"] < known["worth"]
    assert set(unknown["worth_at"]) == {"20", "50", "100"}


def test_committed_rows_are_of_cases_of_the_bench():
    rows = json.loads((ROOT / "benchmarks/luck_saved.json").read_text("utf-8"))
    cases = {(case.game, case.policy, case.opponent) for case in bench.CASES}
    assert {(row["game"], row["policy"], row["opponent"]) for row in rows} <= cases
    assert all(row["low"] <= row["worth"] <= row["high"] for row in rows)
