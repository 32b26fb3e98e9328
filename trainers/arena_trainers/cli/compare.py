"""The command `arena compare`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer

from arena_envs import make
from arena_envs.trust import named_only
from arena_studio.report.compare_page import compare_page
from arena_trainers.cli.arguments import (
    as_policy_string,
    check_out,
    split_commas,
)
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AgainstOption,
    AllowCodeOption,
    CsvOption,
    EpisodesOption,
    LatexOption,
    MaxCostOption,
    MaxTokensOption,
    NumEpisodesOption,
    PolicyOptions,
    PricesOption,
    SeedOption,
    TimeoutOption,
    UntilOption,
    with_policy_options,
)
from arena_trainers.cli.output import JsonOption, one_form, show, show_warnings
from arena_trainers.cli.progress import running
from arena_trainers.cli.training_games import training_games
from arena_trainers.cli.unfinished import exit_if_lost, kept_episodes
from arena_wrappers import Policy, as_policy
from arena_wrappers.prompts import PROMPT_OPTIONS
from arena_wrappers.records import write_whole

COMPARE_PAGE = (b"<!doctype html>", b"Made by arena compare.")  # what our files hold
SUITE = "transfer"  # of `arena compare` without --suite and --games

OpponentsByGame = dict[str, Sequence[Policy | str]]


@with_policy_options
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE")],
    trained: Annotated[str, typer.Argument(metavar="TRAINED")],
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="SUITE",
            help="A suite of arena bench board, or a YAML file. [default: transfer]",
        ),
    ] = None,
    games: Annotated[
        list[str] | None,
        typer.Option(
            "--games",
            "-g",
            metavar="GAME,GAME",
            help="These games instead of a suite; repeatable.",
            callback=split_commas,
        ),
    ] = None,
    against: AgainstOption = None,
    num_episodes: NumEpisodesOption = None,
    until: UntilOption = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Stop when the interval of the difference is on one side of 0, or it is exact.",
        ),
    ] = False,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    seed: SeedOption = 0,
    equal_tokens: Annotated[
        bool,
        typer.Option(
            "--equal-tokens",
            help="Also the plurality of as many replies of one seat as a team's tokens buy.",
        ),
    ] = False,
    trained_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GAME,GAME",
            help="Games of the training. [default: the run's]",
            callback=split_commas,
        ),
    ] = None,
    allow_code: AllowCodeOption = False,
    *,
    policy_options: PolicyOptions,
    timeout: TimeoutOption = None,
    max_tokens: MaxTokensOption = None,
    out: EpisodesOption = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write one HTML page: who wins, the difference, tokens, five replays.",
        ),
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
) -> None:
    """Compare two policies on the same seeds and seats.

    The difference of their returns is paired by seeds, and recomputed from replayed records. In
    cooperative games a policy plays all seats. Baselines: random play, the best constant reply.
    A game is `trained`, `sibling` (same rules, other parameters) or `held out` by the run of
    TRAINED, or by --trained-on. With --out the same command goes on after a stop or lost
    episodes, as `arena eval` does. With --page the two also play each other.

    With the same policy twice, --prompt holds for the second one alone: the difference is what
    the prompt options are worth. A folder or an id of the hub means lm:, a URL api:.

    For example:

    arena compare lm:runs/a/start lm:runs/a/model --suite mars --out a.jsonl

    arena compare random cfr -g kuhn_poker,leduc_poker -n 500 --json

    arena compare lm:runs/a/model lm:runs/a/model -g kuhn_poker --prompt shuffle=1
    """
    from arena_eval.comparison import ComparisonPlan, comparison_table
    from arena_trainers.cli.budgets import (
        limits_of,
        say_again,
        say_expected,
        say_spent,
    )

    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        base, trained = as_policy_string(base), as_policy_string(trained)
        if page is not None:
            check_out(page, COMPARE_PAGE, "arena compare")
        opponents, prompt = _compared_games(suite, games, against, allow_code)
        known_games, trained_on_ids = training_games(
            trained, trained_on, allow_code=allow_code
        )
        pair = _policy_pair(policy_options, base, trained, prompt)
        if page is not None:
            opponents = _with_base(opponents, pair.base)
        limits = limits_of(
            num_episodes,
            until,
            max_tokens,
            max_cost,
            prices,
            is_until_decided=until_decided,
        )
    with _episodes_file(out, is_needed=page is not None) as episodes_file:
        with usage_errors():
            with _games_of_suite(is_default=not (games or suite)):
                plan = ComparisonPlan(
                    pair.base,
                    pair.trained,
                    opponents,
                    prompt=pair.overrides,
                    defaults=prompt,
                    seed=seed,
                    num_episodes=limits.num_episodes,
                    stop=limits.stop,
                    out=episodes_file,
                    timeout=timeout,
                    trained_on=known_games,
                    equal_tokens=equal_tokens,
                )
            expected = say_expected([plan], plan.players, limits)
        with running(kept_episodes(out), policies=[base, trained]) as bar:
            progress = say_again(bar, limits, expected)
            records = [
                {**row, "trained_on": trained_on_ids} for row in plan.run(progress)
            ]
        say_spent(limits)
        show_warnings([*plan.warnings])
        show(form, records, records, lambda _: [comparison_table(records, plan.stops)])
        if page is not None and episodes_file is not None:
            with named_only(allow_code=allow_code):
                text = compare_page(
                    base=pair.base.name,
                    trained=pair.trained.name,
                    records=records,
                    evaluations=plan.evaluations,
                    episodes_file=episodes_file,
                    warnings=[*plan.warnings],
                )
            write_whole(page, text)
            typer.echo(f"{page}: the comparison, with replays", err=True)
        exit_if_lost(plan.unanswered, out)


class PolicyPair(NamedTuple):
    """The compared policies.

    Attributes:
        base: the first.
        trained: the second.
        overrides: arguments of the `PromptWrapper` of both.
    """

    base: Policy
    trained: Policy
    overrides: dict[str, Any]


def _policy_pair(
    policy_options: PolicyOptions, base: str, trained: str, prompt: Mapping[str, Any]
) -> PolicyPair:
    """Both policies; of equal strings the second alone has the prompt options of the command.

    Args:
        policy_options: options of the command.
        base: the string of the first policy.
        trained: that of the second.
        prompt: prompt options of the suite.
    """
    from arena_wrappers.policies.prompted import with_prompt

    specs = [base] if base == trained else [base, trained]
    policies = policy_options.policies(specs)
    if len(policies) != len(specs):
        raise ValueError(f"want two policies, got {len(policies)}: name past:RUN@STEP")
    first, last = as_policy(policies[0]), as_policy(policies[-1])
    overrides = policy_options.wrapper
    if base == trained and policy_options.prompt:
        last = with_prompt(last, policy_options.prompt, prompt)
        overrides = {  # those that change no prompt
            name: value
            for name, value in overrides.items()
            if name not in PROMPT_OPTIONS
        }
    return PolicyPair(first, last, overrides)


@contextmanager
def _episodes_file(out: Path | None, *, is_needed: bool) -> Iterator[Path | None]:
    """The file of episodes: `out`, or one that ends with the command if a page shows replays."""
    if out is not None or not is_needed:
        yield out
        return
    with TemporaryDirectory() as folder:
        yield Path(folder, "episodes.jsonl")


def _with_base(opponents: OpponentsByGame, base: Policy) -> OpponentsByGame:
    """The opponents, and the base in the games in which policies play against each other."""
    with_base: OpponentsByGame = {}
    for name, policies in opponents.items():
        rules = make(name).game
        is_duel = rules.kind != "cooperative" and rules.num_players > 1
        with_base[name] = [*(policies or ["random"]), base] if is_duel else policies
    return with_base


@contextmanager
def _games_of_suite(*, is_default: bool) -> Iterator[None]:
    """Says in an error that the games are those of a suite, if nobody named them."""
    try:
        yield
    except ValueError as error:
        if not is_default:
            raise
        raise ValueError(
            f"no --games are given, so that all games of the suite {SUITE} are played, and one "
            f"cannot be: {error}; name games: --games kuhn_poker"
        ) from error


def _compared_games(
    suite: str | None,
    games: Sequence[str] | None,
    against: Sequence[str] | None,
    allow_code: bool,
) -> tuple[OpponentsByGame, dict[str, Any]]:
    """The opponents by game, and prompt options; --games are in place of a suite's."""
    from arena_eval.tournament import load_suite

    if games and suite:
        raise ValueError("want --suite or --games, got both; leave one out")
    if games:
        return dict.fromkeys(games, against or ()), {}
    suite_settings = load_suite(suite or SUITE, allow_code=allow_code).given
    opponents = {
        entry["game"]: against or entry["opponents"]
        for entry in suite_settings["games"]
    }
    return opponents, suite_settings["prompts"]["plain"]
