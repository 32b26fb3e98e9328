"""Estimators by name, their options, plug-ins, warnings and reports."""

import textwrap
import warnings

import numpy as np
import pytest

from arena_credit import (
    Claims,
    FlatPoolWarning,
    check_options,
    estimate,
    estimator_names,
)
from arena_credit.by_name import claims_of, with_options
from build_credit import _section

ROWS = [(0, 0, 0, [0, 1]), (1, 0, 0, [4]), (1, 0, 1, [2, 2])]


def test_an_unknown_estimator_gets_did_you_mean(batch):
    for call in (
        lambda: estimate("mras", batch(*ROWS)),
        lambda: check_options("mras", {}),
    ):
        with pytest.raises(
            ValueError, match=r"no estimator 'mras'; did you mean 'mars'\?"
        ):
            call()


def test_grpo_is_episode(batch):
    """Under a second name, which is suggested and not listed a second time."""
    turns = batch(*[(i, 0, 0, [i]) for i in range(3)])
    for options in ({}, {"scale": "none"}):
        same = estimate("grpo", turns, **options), estimate("episode", turns, **options)
        assert same[0].advantage.tolist() == same[1].advantage.tolist()
    assert claims_of("grpo") == claims_of("episode")
    assert "grpo" not in estimator_names()
    assert "Also `grpo`." in _section("episode", {})
    with pytest.raises(ValueError, match=r"no estimator 'grpoo'; did you mean 'grpo'"):
        estimate("grpoo", turns)


def test_options_in_parentheses_are_refused_where_they_would_be_ignored(batch):
    with pytest.raises(ValueError, match="give its options beside"):
        estimate("mars(discount=0.5)", batch(*ROWS))


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("mars(discount=0.9)", {"discount": 0.5}, "'discount' in credit_args, too"),
        ("mars(0.9)", {}, r"NAME\(key=value\)"),
        ("mrs(discount=0.9)", {}, "did you mean 'mars'"),
    ],
)
def test_options_of_an_estimator_that_are_unclear_are_refused(text, options, error):
    with pytest.raises(ValueError, match=error):
        with_options(text, options)


def test_an_unknown_option_is_named_with_those_known(batch):
    message = (
        r"'mars' has no option 'pol'; did you mean 'pool'\? Options are discount, pool"
    )
    with pytest.raises(ValueError, match=message):
        estimate("mars", batch(*ROWS), pol=("game",))
    with pytest.raises(ValueError, match=message):
        check_options("mars", {"pol": ("game",)})
    check_options("rae", {"decay": 0.9})


def test_a_state_for_an_estimator_without_one_is_refused(batch):
    with pytest.raises(ValueError, match="'mars' keeps no state, got"):
        estimate("mars", batch(*ROWS), state={"baselines": []})


def test_advantages_that_are_not_finite_are_refused(batch):
    """Infinity times a label that is the mean of its pool."""
    turns = batch(*ROWS, rewards={"judge": [1.0, -1.0, 0, 0, 0]})
    message = "want finite advantages, got nan for row 0 from estimator 'adca'"
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=message),
    ):
        estimate("adca", turns, judge_weight=np.inf)


def test_a_report_tells_what_was_compared(batch):
    """Returns-to-go 1 1 4 of seat 0, mean 2, std √3; 4 2 of seat 1, mean 3, std √2."""
    report = estimate("mars", batch(*ROWS)).report
    first, second = report
    assert first.key == {"game": 0, "seat": 0}
    assert second.key == {"game": 0, "seat": 1}
    assert (first.size, second.size) == (3, 2)
    assert (first.mean, second.mean) == (2, 3)
    assert first.std == pytest.approx(3**0.5)
    assert (first.zeros, second.zeros) == (0, 0)


def test_the_share_of_zeros_is_of_the_pools_turns(batch):
    """Returns-to-go 2 2 | 3 | 1, mean 2: two of four turns get 0."""
    turns = batch((0, 0, 0, [0, 2]), (1, 0, 0, [3]), (2, 0, 0, [1]))
    assert estimate("mars", turns).report.zeros.tolist() == [0.5]


@pytest.mark.parametrize(
    ("name", "options", "off", "column"),
    [
        ("stratified_grpo", {"blend": 1.0}, {"blend": 0.0}, "num_turns"),
        ("gigpo", {}, {"omega": 0.0}, "state_key"),
    ],
)
def test_flat_pools_within_pools_are_reported_and_warned_of(
    batch, name, options, off, column
):
    """Returns 1 3 of one turn, 8 of two turns. Of states, 5 is seen three times, 6 once."""
    rows = [(0, 0, 0, [1]), (1, 0, 0, [3]), (2, 0, 0, [4, 4])]
    turns = batch(*rows, state_key=[5, 5, 5, 6])
    message = rf"{name!r}: a pool by .*{column}.* so a part of the advantages is 0"
    with pytest.warns(FlatPoolWarning, match=message):
        report = estimate(name, turns, **options).report
    assert (len(report), report.size.tolist(), report.zeros[0] < 1) == (1, [3], True)
    assert report.within.names[-1] == column
    assert report.within.size.tolist() == ([2, 1] if column == "num_turns" else [3, 1])
    assert report.within.zeros.tolist() == [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate(name, turns, **off).report.within is None


def test_a_stratum_of_one_keeps_the_blended_part(batch):
    """As the docstring says: 1 - α of `episode`, and nothing with α = 1."""
    turns = batch((0, 0, 0, [1]), (1, 0, 0, [3]), (2, 0, 0, [4, 4]))
    whole = estimate("episode", turns, eps=1e-6).advantage
    for blend in (0.25, 1.0):
        with pytest.warns(FlatPoolWarning):
            got = estimate("stratified_grpo", turns, blend=blend).advantage
        np.testing.assert_allclose(got[2:], (1 - blend) * whole[2:])


def test_groups_of_different_games_are_apart_although_of_one_number(batch):
    turns = batch((0, 0, 0, [1]), (1, 0, 0, [3]), (2, 1, 0, [7]), (3, 1, 0, [9]))
    same = batch(
        (0, 0, 0, [1]), (1, 0, 0, [3]), (2, 1, 0, [7]), (3, 1, 0, [9]), group=[5] * 4
    )
    expected = estimate("episode", turns).advantage
    assert estimate("episode", same).advantage.tolist() == expected.tolist()


def test_pools_may_be_the_whole_batch(batch):
    got = estimate("mars", batch((0, 0, 0, [1]), (1, 1, 1, [3])), pool=()).advantage
    assert got.tolist() == [-1, 1]


def test_a_warning_points_at_the_caller_and_is_the_same_for_every_batch(batch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate("mars", batch((0, 0, 0, [1])))
        estimate("mars", batch((0, 3, 1, [2]), (1, 3, 1, [2])))
    assert [w.category for w in caught] == [FlatPoolWarning] * 2
    assert {w.filename for w in caught} == {__file__}
    assert len({str(w.message) for w in caught}) == 1


class TestPlugins:
    @pytest.fixture(autouse=True)
    def site(self, tmp_path, monkeypatch):
        """An installed distribution that brings four estimators, three of them odd."""
        info = tmp_path / "strange_credit-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: strange-credit\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            "[arena.credit]\n"
            "own_reward = strange_credit:own_reward\n"
            "per_token = strange_credit:per_token\n"
            "short = strange_credit:short\n"
            "absent = strange_credit:absent\n"
            "mars = strange_credit:own_reward\n"
        )
        (tmp_path / "strange_credit.py").write_text(
            textwrap.dedent(
                """
                import numpy as np
                from arena_credit import (
                    claims, moments, needs, pools_by, with_report
                )

                @claims(bias_infinite="direction", games_apart=True)
                def own_reward(turns, *, factor=1.0, **rest):
                    pools = pools_by(turns, ("game",))
                    reward = factor * turns.column("reward")
                    return with_report(reward, pools, moments(reward, pools.of, len(pools.key)))

                @needs("num_tokens", per_token=True)
                def per_token(turns):
                    result = own_reward(turns)
                    tokens = np.repeat(result.advantage, turns.column("num_tokens"))
                    return result._replace(advantage=tokens)

                def short(turns):
                    result = own_reward(turns)
                    return result._replace(advantage=result.advantage[1:])
                """
            )
        )
        monkeypatch.syspath_prepend(tmp_path)

    def test_a_plugin_is_an_estimator_like_any_other(self, batch):
        assert "own_reward" in estimator_names()
        result = estimate("own_reward", batch(*ROWS), factor=2.0, anything="goes")
        assert result.advantage.tolist() == [0, 2, 8, 4, 4]

    def test_a_path_names_an_estimator_without_a_plugin(self, batch):
        result = estimate("strange_credit:own_reward", batch(*ROWS), factor=2.0)
        assert result.advantage.tolist() == [0, 2, 8, 4, 4]
        with pytest.raises(ValueError, match="want an estimator as module:name, got"):
            estimate("strange_credit:nothing", batch(*ROWS))
        with pytest.raises(
            ValueError, match="'strange_credit:__name__', which is 'strange"
        ):
            estimate("strange_credit:__name__", batch(*ROWS))

    def test_a_plugin_declares_its_claims(self):
        assert claims_of("own_reward") == Claims(
            bias_infinite="direction", games_apart=True
        )
        assert claims_of("per_token") == Claims()

    def test_a_built_in_goes_before_a_plugin(self, batch):
        assert estimator_names().count("mars") == 1
        assert estimate("mars", batch(*ROWS)).advantage.tolist() == [-1, -1, 2, 1, -1]

    def test_token_level_advantages_return_to_the_rows_of_their_turns(self, batch):
        """Rows in another order, the second one masked: rewards 4, (1), 0."""
        turns = batch(
            (1, 0, 0, [4]),
            (0, 0, 0, [1]),
            (0, 0, 1, [3]),
            num_tokens=[2, 3, 1],
            mask=[True, False, True],
        )
        got = estimate("per_token", turns).advantage
        assert got.tolist() == [4, 4, 0, 0, 0, 3]

    def test_a_wrong_number_of_advantages_is_named(self, batch):
        with pytest.raises(ValueError, match=r"want 5 advantages, .* got 4"):
            estimate("short", batch(*ROWS))

    def test_a_broken_plugin_is_named(self, batch):
        message = (
            "'absent' of plug-in 'strange-credit' cannot be loaded from 'strange_c"
        )
        with pytest.raises(ImportError, match=message):
            estimate("absent", batch(*ROWS))


@pytest.mark.parametrize("discount", [-0.5, 1.5, float("nan")])
def test_a_discount_outside_0_to_1_is_refused(discount, batch):
    with pytest.raises(ValueError, match="want discount between 0 and 1"):
        estimate("mars", batch((0, 0, 0, [1.0])), discount=discount)
