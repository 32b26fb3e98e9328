"""The noise of credit by when a game pays: against the law, and the committed figures."""

import json

import pytest
from typer.testing import CliRunner

import comparing
import credit_payments
from arena_envs.games.rounds import Rounds
from credit_payments import TITLES, committed, noises

pytestmark = pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")


def test_equal_rounds_have_the_noise_of_the_law():
    """Of T rounds the episode holds T, and a return-to-go (T + 1) / 2 on average."""
    found = noises(Rounds(num_rounds=3, **credit_payments.SIZE), 60)
    episode, turn = found["dr_grpo (game, seat)"], found["mars (game, seat, turn)"]
    assert episode.low < 3.05 < episode.high
    assert turn.value == pytest.approx(2, rel=0.03)


def test_one_round_has_no_noise_but_that_of_the_mean():
    """The mean of 128 returns holds the own one: 1 / (1 - 1 / 128)."""
    noise = noises(Rounds(num_rounds=1, **credit_payments.SIZE), 20)
    assert noise["mars"].value == pytest.approx(128 / 127, abs=5e-3)
    assert noise["dr_grpo"].value == pytest.approx(8 / 7, rel=1e-2)


def test_random_effects_keeps_its_bars_in_the_committed_figures():
    """Within 2 times of the least noise of every row; with falling stakes 5 times less than
    the episode; never above the episode."""
    for row in committed():
        noise = {name: found[0] for name, found in row.noise.items()}
        own, episode = noise["random_effects"], noise["dr_grpo (game, seat)"]
        assert own <= 2 * min(noise.values())
        assert own <= 1.02 * episode
        if row.options == {"stakes": "falling"}:
            assert 5 * own < episode


def test_the_command_writes_every_row(tmp_path, monkeypatch):
    monkeypatch.setattr(credit_payments, "ROWS", {"now": {"num_rounds": 2}})
    command = ["--num-turns", "64", "--directory", str(tmp_path)]
    done = CliRunner().invoke(
        comparing.script(credit_payments.main), command, catch_exceptions=False
    )
    assert done.exit_code == 0
    (row,) = json.loads((tmp_path / credit_payments.FILE).read_text())
    assert row["options"] == {"num_rounds": 2}
    assert set(row["noise"]) == set(TITLES)
