"""The command `arena eval`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs import GameEnv, game_infos
from arena_envs.registration import games as known_games
from arena_eval.measures.by_name import measures
from arena_trainers.cli.arguments import read_envs, split_commas
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AgainstOption,
    CsvOption,
    EpisodesOption,
    LatexOption,
    MaxCostOption,
    MaxTokensOption,
    MaxTurnsOption,
    NumEpisodesOption,
    ParamOption,
    PolicyArgument,
    PolicyOptions,
    PricesOption,
    SeedOption,
    TimeoutOption,
    UntilOption,
    ValuesOption,
    with_policy_options,
)
from arena_trainers.cli.output import JsonOption, one_form, show, show_warnings
from arena_trainers.cli.progress import running
from arena_trainers.cli.unfinished import exit_if_lost, kept_episodes
from arena_trainers.matchmaking import is_past
from arena_wrappers import make_policy

if TYPE_CHECKING:
    from arena_eval.matches import Evaluation, EvaluationPlan

    Measure = Callable[[], dict[str, float]]


@with_policy_options
def evaluate(
    policy: PolicyArgument,
    game: Annotated[str | None, typer.Argument(metavar="GAME")] = None,
    against: AgainstOption = None,
    num_episodes: NumEpisodesOption = None,
    out: EpisodesOption = None,
    until: UntilOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    games: Annotated[
        list[str] | None,
        typer.Option(
            "--games",
            "-g",
            metavar="GAME,GAME",
            help="Games by commas, in place of GAME; repeatable.",
            callback=split_commas,
        ),
    ] = None,
    params: ParamOption = None,
    baselines: Annotated[
        bool | None,
        typer.Option(
            help="Print all rows of the game's baselines; --no-baselines plays none. By default two lines tell them."
        ),
    ] = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "--probe",
            metavar="NAME",
            help=f"Also take a measure: {', '.join(sorted(measures.built_in))}; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
    *,
    policy_options: PolicyOptions,
    max_turns: MaxTurnsOption = None,
    max_tokens: MaxTokensOption = None,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
    values: ValuesOption = "auto",
) -> None:
    """Measure a policy against opponents.

    The policy plays in every seat. Results have confidence intervals and are compared with
    baselines. A score of 0 is uniform random play, 100 a best response to the same opponent; both
    are exact. The score is "-" if the game cannot be enumerated. In cooperative games of talk a line
    compares play with itself and play with another partner: that of --against, or the game's bot.

    A policy is a string: random, first, constant:0, minimax, cfr, mcts:1000, ismcts:100,
    tit_for_tat, hanabi_convention, lm:PATH, past:RUN@STEP, api:MODEL@URL, vllm:URL, human; an
    opponent may also be "self", or past:RUN for all snapshots of a run. In small games a table has
    the exact NashConv of policies with known action probabilities. Episodes with an endpoint run
    concurrently. An episode in which a policy gives no reply is lost: it is left out of all results, and
    the exit status is 1. With --out, the same command replays lost episodes, and continues after
    an interruption. --out FILE.jsonl also appends the results to FILE.results.jsonl;
    `arena report FILE.jsonl` shows both.

    A model that arena train saved is prompted and sampled as in training. Its folder has these options in
    arena_prompt.json, which can be edited. Options of this command override those files for all
    policies.

    For example:

    arena eval mcts:100 tic_tac_toe --against minimax --against random

    arena eval lm:runs/seed1/model kuhn_poker --against cfr -n 1000 --json

    arena eval noisy:0.2(cfr) leduc_poker --measure regret --measure mutual_information

    arena eval cfr -g kuhn_poker -g leduc_poker -p kuhn_poker.num_players=3 --csv
    """
    from arena_trainers.cli.budgets import (
        limits_of,
        say_again,
        say_expected,
        say_spent,
    )

    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        game_names = _named_games(policy, game, games)
        limits = limits_of(num_episodes, until, max_tokens, max_cost, prices)
        options: dict[str, Any] = {
            "seed": seed,
            "prompt": policy_options.wrapper,
            "out": out,
            "baselines": baselines is not False,
            "timeout": timeout,
            "num_episodes": limits.num_episodes,
            "stop": limits.stop,
            "measures": measure or (),
            "values": None if values == "none" else values,
        }
        specs = [policy, *(against or [])]
        envs = _envs(policy, game_names, params, max_turns)
        plans, exact_measures = _game_plans(policy_options, specs, envs, options)
        expected = say_expected(plans, plans[0].players, limits)
    with running(kept_episodes(out), policies=specs) as bar:
        evaluations = _run(plans, say_again(bar, limits, expected), out)
        nash_convs = [measure() for measure in exact_measures]
    say_spent(limits)
    show_warnings([text for evaluation in evaluations for text in evaluation.warnings])
    _show(evaluations, nash_convs, form, has_baselines=bool(baselines))
    exit_if_lost([text for plan in plans for text in plan.unanswered()], out)


def _named_games(
    policy: str, game: str | None, games: Sequence[str] | None
) -> list[str]:
    """GAME and those of --games; raises ValueError if there is none."""
    game_names = [*([game] if game else []), *(games or [])]
    if not game_names:
        is_game = known_games.knows(policy)
        first = f"random {policy}" if is_game else f"{policy} kuhn_poker"
        raise ValueError(
            f"want a policy and then a GAME, got {policy!r} alone; write: arena eval {first}"
        )
    return game_names


def _show(
    evaluations: "Sequence[Evaluation]",
    nash_convs: Sequence[Mapping[str, float]],
    form: str,
    has_baselines: bool,
) -> None:
    """Prints all evaluations in a form of `one_form`; tables have rows of baselines if asked."""
    from arena_eval.tables import (
        evaluation_tables,
        nash_conv_table,
        records_of,
    )

    pairs = list(zip(evaluations, nash_convs, strict=True))

    def tables(width: int | None) -> list[Table]:
        all_tables: list[Table] = []
        for evaluation, nash_conv in pairs:
            all_tables += evaluation_tables(evaluation, width, has_baselines)
            if nash_conv:
                all_tables.append(nash_conv_table(evaluation.game, nash_conv))
        return all_tables

    documents = []
    for evaluation, nash_conv in pairs:
        document = evaluation.to_dict()
        if nash_conv:
            document["nash_conv"] = dict(nash_conv)
        documents.append(document)
    document = documents[0] if len(documents) == 1 else {"evaluations": documents}
    show(form, document, [row for pair in pairs for row in records_of(*pair)], tables)


def _run(
    plans: "Sequence[EvaluationPlan]",
    bar: Callable[[int, int], None],
    out: Path | None,
) -> "list[Evaluation]":
    """Runs all plans under one progress bar."""
    from arena_eval.result_rows import append_results

    num_episodes = sum(plan.num_episodes for plan in plans)
    num_before = 0
    evaluations = []
    for plan in plans:

        def progress(num_done: int, _: int, num_before: int = num_before) -> None:
            bar(num_before + num_done, num_episodes)

        evaluations.append(plan.run(progress, write=False))
        num_before += plan.num_episodes
    if out is not None:
        append_results(out, [evaluation.to_dict() for evaluation in evaluations])
    return evaluations


def _envs(
    policy: str, games: Sequence[str], params: list[str] | None, max_turns: int | None
) -> list[GameEnv]:
    """The environments of the games; an error says if GAME and POLICY are swapped."""
    try:
        return read_envs(games, params, max_turns)
    except ValueError:
        ids = [info.id for info in game_infos()]
        if policy in {*ids, *(id.rpartition("-v")[0] for id in ids)}:
            raise ValueError(
                f"want a policy and then a game, got the game {policy!r} first; write: "
                f"arena eval {games[0]} {policy}"
            ) from None
        raise


def _game_plans(
    policy_options: PolicyOptions,
    specs: Sequence[str],
    envs: Sequence[GameEnv],
    options: Mapping[str, Any],
) -> "tuple[Sequence[EvaluationPlan], Sequence[Measure]]":
    """For each game, the evaluation and what measures exact NashConv.

    Snapshots of a run are always scored, and other models in games with no more information
    states than the evaluation has episodes.
    """
    from arena_eval.exploit import MAX_INFORMATION_STATES, nash_convs
    from arena_eval.matches import EvaluationPlan, opponents_of

    first, *opponents = [
        make_policy(policy) if isinstance(policy, str) and policy != "self" else policy
        for policy in policy_options.policies(specs)
    ]
    plans = [
        EvaluationPlan(first, env, opponents_of(env.game, opponents), **options)
        for env in envs
    ]
    opponents = opponents or [make_policy("random")]
    are_snapshots = any(map(is_past, specs[1:]))
    policies = [*opponents, first] if are_snapshots else [first, *opponents]
    exact_measures = [
        partial(
            nash_convs,
            policies,
            env,
            policy_options.wrapper,
            MAX_INFORMATION_STATES if are_snapshots else plan.num_episodes,
        )
        for env, plan in zip(envs, plans, strict=True)
    ]
    return plans, exact_measures
