"""The noise of credit by payment, length and groups: against the law, and the committed figures."""

import json

import pytest
from typer.testing import CliRunner

import comparing
import credit_payments
from credit_payments import OWN, Payment, committed, defeats, noises

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
NAMES = ("dr_grpo (game, seat)", "mars", "mars (game, seat, turn)", "dr_grpo")


def row(group=8, shared=True, **options):
    return Payment("mine", {"num_rounds": 3, **options}, {}, group, shared)


def test_equal_rounds_have_the_noise_of_the_law():
    """Of T rounds the episode holds T, and a return-to-go (T + 1) / 2 on average."""
    found = noises(row(), 60, NAMES)
    episode, turn = found["dr_grpo (game, seat)"], found["mars (game, seat, turn)"]
    assert episode.low < 3.05 < episode.high
    assert turn.value == pytest.approx(2, rel=0.03)


def test_one_round_has_no_noise_but_that_of_the_mean():
    """The mean of 128 returns holds the own one: 1 / (1 - 1 / 128)."""
    noise = noises(row(num_rounds=1), 20, NAMES)
    assert noise["mars"].value == pytest.approx(128 / 127, abs=5e-3)
    assert noise["dr_grpo"].value == pytest.approx(8 / 7, rel=2e-2)


def test_a_mean_of_the_group_removes_only_luck_that_is_shared():
    noise = [
        noises(row(8, s, luck=20), 10, ["dr_grpo"])["dr_grpo"] for s in (True, False)
    ]
    assert noise[0].value < 5
    assert noise[1].value > 100


def test_the_default_keeps_its_bars_in_the_committed_figures():
    """Nowhere 1 % noisier than the episode or its best pool, beyond the intervals; with falling
    stakes in 8 rounds 5 times less noisy than the episode."""
    rows = committed()
    assert len(rows) == len(credit_payments.rows())
    for one in rows:
        own = one.noise[OWN]
        for name in (credit_payments.EPISODE, *credit_payments.POOLS_OF_TURNS):
            if name in one.noise:
                assert own[1] <= 1.01 * one.noise[name][2], one
        if one.options == {"num_rounds": 8, "stakes": "falling"}:
            assert 5 * own[0] < one.noise[credit_payments.EPISODE][0]


def test_defeats_are_named():
    noise = {"random_effects": (5.0, 4.9, 5.1), "dr_grpo (game, seat)": (2.0, 1.9, 2.1)}
    one = row()._replace(noise=noise)
    text = "mine, 3 rounds, groups of 8 with shared chance: 5 against 2 of episode (game, seat)"
    assert defeats([one]) == ([text], [text])
    near = one._replace(noise=noise | {"dr_grpo (game, seat)": (4.0, 3.0, 5.0)})
    assert defeats([near]) == ([], [])


def test_the_command_measures_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(credit_payments, "rows", lambda: [row()])
    monkeypatch.setattr(credit_payments, "NUM_TURNS", 9)
    names = dict(list(credit_payments.VARIANTS.items())[:2])
    monkeypatch.setattr(credit_payments, "VARIANTS", names)
    known = row()._replace(noise={next(iter(names)): (9.0, 8.0, 10.0)})
    (tmp_path / credit_payments.FILE).write_text(json.dumps([known._asdict()]))
    done = CliRunner().invoke(
        comparing.script(credit_payments.main),
        ["--directory", str(tmp_path)],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    (found,) = json.loads((tmp_path / credit_payments.FILE).read_text())
    first, second = found["noise"].values()
    assert first == [9.0, 8.0, 10.0]
    assert 1 < second[0] < 9
