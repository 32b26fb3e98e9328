"""What `benchmarks/night.py` measures of a policy in a game: returns, legality, exact NashConv."""

from typing import Any

import reasons
from arena_envs import make
from arena_envs.solvers import nash_conv
from arena_eval import evaluate
from arena_eval.exploit import Scores, exploitability, tabular
from arena_eval.result_rows import ResultRow
from arena_trainers.lm import LMPolicy
from arena_wrappers import Policy, make_policy
from night_settings import FIRST_DEAL, MEASURED, Measured

BLIND_DEALS = 400  # of policies that read no prompt; they cost little
NUM_DEALS_A_SEED = 1000  # between the first deals of two seeds


def measured(policy: LMPolicy, game: str, seed: int) -> dict[str, Any]:
    """The return of a model in a game, with its interval over deals, legality, and NashConv.

    With reasons, NashConv is that of Kuhn poker alone, beside the measures of its reasons.

    Args:
        policy: with its prompt options.
        game: key of `MEASURED`.
        seed: chooses the deals.
    """
    setting = MEASURED[game]
    policy.forget_episodes()  # else bfloat16 replies depend on what was measured before
    has_reasons = policy.reasoning_marks is not None
    if has_reasons or not setting.nash_conv:
        (row,) = _rows(Player(policy), setting, seed, setting.deals, baselines=False)
        values = {**_values(row), "legal": 1 - sum(row.invalid.values())}
        return {**values, **_of_reasons(policy)} if game == "kuhn_poker" else values
    rules = make(setting.game, **setting.params).game
    scores = tabular(policy, rules)
    (row,) = _rows(policy, setting, seed, setting.deals, scores=scores, baselines=False)
    table, illegal = scores
    return {
        **_values(row),
        "legal": 1 - sum(row.invalid.values()),
        "nash_conv": nash_conv(rules, table),
        "illegal_mass": sum(illegal) / len(illegal),
    }


def _of_reasons(policy: LMPolicy) -> dict[str, float]:
    """The exact NashConv of a model that gives reasons in Kuhn poker, and other measures of them."""
    values = reasons.measures_of(reasons.reply_table(policy))
    return {"exact_return": values.pop("return"), **values}


class Player:
    """A model that replies, and scores nothing.

    Of other policies `evaluate` asks for probabilities in up to 1,000 information states, which takes
    minutes; play takes seconds.
    """

    def __init__(self, policy: LMPolicy) -> None:
        self.name, self.prompt, self.act = policy.name, policy.prompt, policy.act


def blind(game: str) -> dict[str, dict[str, Any]]:
    """The returns of policies that read no prompt, by name; and of the solver, if there is one.

    `first` takes the first legal action, `uniform` a random one, `constant` the same action
    wherever it is legal: the best one on other deals.
    """
    setting = MEASURED[game]
    rows = _rows(make_policy("first"), setting, 0, BLIND_DEALS, baselines=True)
    results = {("first" if r.role == "policy" else r.role): _values(r) for r in rows}
    if setting.nash_conv:
        rules = make(setting.game, **setting.params).game
        for name in ("first", "random"):
            player: Any = make_policy(name)
            conv = exploitability(player, rules).nash_conv
            results["uniform" if name == "random" else name]["nash_conv"] = conv
    return results


def _rows(
    policy: Policy,
    setting: Measured,
    seed: int,
    num_deals: int,
    *,
    baselines: bool,
    scores: Scores | None = None,
) -> list[ResultRow]:
    """The rows of all seats together."""
    env = make(setting.game, **setting.params)
    evaluation = evaluate(
        policy,
        env,
        [setting.opponent],
        num_deals,
        seed=FIRST_DEAL + NUM_DEALS_A_SEED * seed,
        baselines=baselines,
        scores=scores,
        on_error="raise",
    )
    seat = 0 if env.game.num_players == 1 else "all"
    return [row for row in evaluation.rows if row.seat == seat]


def _values(row: ResultRow) -> dict[str, Any]:
    """A row's return, luck taken out where that helps, with its interval over deals."""
    mean, low, high = row.estimate
    return {
        "return": mean,
        "low": low,
        "high": high,
        "episodes": row.num_episodes,
        "is_exact": row.is_exact,
        "is_adjusted": row.adjusted is not None,
    }
