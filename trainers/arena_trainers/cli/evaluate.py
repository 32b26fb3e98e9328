"""The command that measures a policy: `arena eval`."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from arena_envs import GameEnv, game_infos
from arena_trainers.cli.options import (
    AsJson,
    Baselines,
    EpisodesFile,
    EvalEpisodes,
    FirstSeed,
    MaxTurns,
    Opponents,
    OptionalGame,
    Params,
    PolicyName,
    Suite,
    Timeout,
    read_env,
)
from arena_trainers.cli.policy_options import (
    PolicyOptions,
    show_warnings,
    takes_policy_options,
)
from arena_trainers.cli.usage import (
    print_tables,
    running,
    terminal_width,
    usage_errors,
)
from arena_trainers.matchmaking import is_past
from arena_wrappers import Policy, make_policy

if TYPE_CHECKING:
    from arena_trainers.evaluate.matches import (
        Evaluation,
        EvaluationPlan,
        SuiteEvaluation,
        SuitePlan,
    )


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("eval")(takes_policy_options(evaluate))


def evaluate(
    policy: PolicyName,
    game: OptionalGame = None,
    against: Opponents = None,
    suite: Suite = None,
    num_episodes: EvalEpisodes = None,
    seed: FirstSeed = 0,
    *,
    how: PolicyOptions,
    baselines: Baselines = True,
    timeout: Timeout = None,
    params: Params = None,
    max_turns: MaxTurns = None,
    out: EpisodesFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a policy against opponents.

    It plays in every seat. Results have confidence intervals and are compared with baselines. The
    score is 0 for uniform random play and 100 for a best response to the same opponent, both
    exact; "-" with the reason where the game cannot be enumerated.

    A policy is a string: random, first, constant:0, minimax, cfr, mcts:1000, ismcts:100,
    tit_for_tat, hanabi_convention, lm:PATH, past:RUN@STEP, api:MODEL@URL, vllm:URL, human; an
    opponent may also be "self", or past:RUN for all snapshots of a run: in small competitive
    games with their exact NashConv. Episodes with an endpoint do not wait for each other. An
    episode in which a policy gives no reply is lost: it counts nowhere, the status is 1, and
    with --out the same command plays it again. --out FILE.jsonl also appends the
    results to FILE.results.jsonl; `arena report FILE.jsonl` shows both.

    A model that was saved here is prompted and sampled as in its training. The file
    arena_prompt.json in its folder holds these options, and can be edited. Options of this
    command override the files of all policies.

    For example:

    arena eval mcts:100 tic_tac_toe --against minimax --against random

    arena eval lm:runs/seed1/model kuhn_poker --against cfr -n 1000 --json

    arena eval lm:runs/seed1/model --suite mars --out mars.jsonl
    """
    with usage_errors():
        _want_game_or_suite(game, suite, against, params, max_turns)
        options: dict[str, Any] = {"seed": seed, "prompt": how.wrapper, "out": out}
        options |= {"baselines": baselines, "timeout": timeout}
        if num_episodes is not None:
            options["num_episodes"] = num_episodes
        others = against or ["random"]
        plan: EvaluationPlan | SuitePlan
        snapshots: Callable[[], dict[str, float]] = dict
        if game is not None:
            env = _env(policy, game, params, max_turns)
            plan, snapshots = _game_plan(how, [policy, *others], env, options)
        else:
            plan = _suite_plan(how.policies([policy])[0], suite or "", options)
    with running(_kept(out), policies=[policy, *others]) as bar:
        found = plan.run(bar)
        convs = snapshots()
    show_warnings(found.warnings)
    if as_json:
        more = {"nash_conv": convs} if convs else {}
        typer.echo(json.dumps(found.to_dict() | more, indent=1))
    else:
        _print(found, convs)
    _end(plan.unanswered(), out)


def _env(
    policy: str, game: str, params: list[str] | None, max_turns: int | None
) -> GameEnv:
    """The environment of GAME; an error says if GAME and POLICY are swapped."""
    try:
        return read_env(game, params, max_turns)
    except ValueError:
        ids = [info.id for info in game_infos()]
        if policy in {*ids, *(id.rpartition("-v")[0] for id in ids)}:
            raise ValueError(
                f"want a policy and then a game, got the game {policy!r} first; write: "
                f"arena eval {game} {policy}"
            ) from None
        raise


def _game_plan(
    how: PolicyOptions, specs: Sequence[str], env: GameEnv, options: Mapping[str, Any]
) -> "tuple[EvaluationPlan, Callable[[], dict[str, float]]]":
    """The evaluation, and what measures the NashConv of the snapshots among `specs`."""
    from arena_trainers.evaluate.matches import EvaluationPlan

    first, *others = how.policies(specs)
    snapshots: Callable[[], dict[str, float]] = dict
    if any(map(is_past, specs[1:])):
        first = make_policy(first) if isinstance(first, str) else first
        snapshots = partial(_nash_convs, [first, *others], env, how.wrapper)
    return EvaluationPlan(first, env, others, **options), snapshots


def _nash_convs(
    policies: Sequence[Policy | str], env: GameEnv, prompt: Mapping[str, Any]
) -> dict[str, float]:
    """Exact NashConv of the policy and of the snapshots that it plays against, by name."""
    from arena_trainers.evaluate.exploit import nash_convs

    first, *others = policies
    past = [p for p in others if not isinstance(p, str) and is_past(p.name)]
    return nash_convs([*past, first], env, prompt)


def _suite_plan(
    policy: Policy | str, suite: str, options: Mapping[str, Any]
) -> "SuitePlan":
    from arena_trainers.evaluate.matches import SuitePlan

    return SuitePlan(suite, policy, **options)


def _kept(out: Path | None) -> Callable[[], str]:
    """Says of a stopped evaluation, which is about to begin, which episodes were kept."""
    before = _num_lines(out)

    def clause() -> str:
        count = _num_lines(out) - before
        if count:
            return f"nothing was measured; episodes played so far are in {out}: {count}"
        if out is None:
            return "nothing was measured or kept; --out FILE keeps episodes as they end"
        return f"nothing was measured; no episode was added to {out}"

    return clause


def _num_lines(path: Path | None) -> int:
    if path is None or not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _end(lost: Sequence[str], out: Path | None) -> None:
    """Ends with status 1 if episodes are lost."""
    for text in lost:
        typer.echo(f"error: {text}", err=True)
    if lost:
        again = "the same command plays them again"
        if out is None:
            again = "--out FILE keeps the others, and then the same command plays them again"
        typer.echo(f"error: lost episodes count nowhere; {again}", err=True)
        raise typer.Exit(1)


def _want_game_or_suite(
    game: str | None,
    suite: str | None,
    against: list[str] | None,
    params: list[str] | None,
    max_turns: int | None,
) -> None:
    if (game is None) == (suite is None):
        raise ValueError("want either a GAME or --suite")
    if suite is None:
        return
    if against or params:
        raise ValueError(
            "want --suite without --against and --param: a suite names its opponents "
            "and games"
        )
    if max_turns is not None:
        raise ValueError(
            "want --max-turns with a GAME only, got it with --suite; leave it out"
        )


def _print(found: "Evaluation | SuiteEvaluation", convs: Mapping[str, float]) -> None:
    from arena_trainers.evaluate.matches import SuiteEvaluation
    from arena_trainers.evaluate.tables import evaluation_tables, suite_table

    if isinstance(found, SuiteEvaluation):
        print_tables([suite_table(found)])
    for one in found.evaluations if isinstance(found, SuiteEvaluation) else [found]:
        print_tables(evaluation_tables(one, terminal_width()))
        if convs:
            from arena_trainers.evaluate.tables import nash_conv_table

            print_tables([nash_conv_table(one.game, convs)])
