"""The commands `arena eval`, `arena compare`, `arena attribute`, `arena board`, `arena tournament` and `arena play`."""

import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from arena_envs import GameEnv, game_infos, make
from arena_envs.doors import split
from arena_envs.game import AnyGame
from arena_studio.report.episodes import count_lines
from arena_trainers.cli.episodes import report as write_page
from arena_trainers.cli.options import (
    PolicyOptions,
    as_command,
    group,
    one_form,
    read_env,
    read_envs,
    running,
    show,
    show_warnings,
    usage_errors,
    wanted_folder,
)
from arena_trainers.matchmaking import is_past
from arena_trainers.runs.folder import CONFIG
from arena_trainers.runs.settings import load_recipe
from arena_wrappers import (
    Episode,
    EpisodePlan,
    HumanPolicy,
    NoReplyError,
    Policy,
    PromptOptions,
    PromptWrapper,
    make_policy,
    play_plans,
)
from arena_wrappers.play import ending
from arena_wrappers.policies import wrapped
from arena_wrappers.records import EpisodeLog

if TYPE_CHECKING:
    from arena_eval.matches import Evaluation, EvaluationPlan

    Measure = Callable[[], dict[str, float]]
    from arena_eval.tournament import Tournament


@as_command
def evaluate(
    policy: str,
    game: str | None = None,
    against: list[str] | None = None,
    num_episodes: int = 100,
    seed: int = 0,
    *,
    how: PolicyOptions,
    baselines: bool = True,
    measure: list[str] | None = None,
    values: str = "auto",
    timeout: float | None = None,
    params: list[str] | None = None,
    max_turns: int | None = None,
    out: Path | None = None,
    games: list[str] | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Measure a policy against opponents."""
    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        named = [*([game] if game else []), *(games or [])]
        if not named:
            raise ValueError("want a GAME, or several with --games")
        options: dict[str, Any] = {"seed": seed, "prompt": how.wrapper, "out": out}
        options |= {"baselines": baselines, "timeout": timeout}
        options |= {"num_episodes": num_episodes, "measures": measure or ()}
        options |= {"values": None if values == "none" else values}
        specs = [policy, *(against or [])]
        envs = _envs(policy, named, params, max_turns)
        plans, measures = _game_plans(how, specs, envs, options)
    with running(_kept(out), policies=specs) as bar:
        found = _run(plans, bar, out)
        convs = [measure() for measure in measures]
    show_warnings([text for one in found for text in one.warnings])
    _show(found, convs, form)
    _end([text for plan in plans for text in plan.unanswered()], out)


def _show(
    found: "Sequence[Evaluation]",
    convs: Sequence[Mapping[str, float]],
    form: str,
) -> None:
    """Prints all evaluations in a form of `one_form`."""
    from arena_eval.tables import (
        evaluation_tables,
        nash_conv_table,
        records_of,
    )

    def tables(width: int | None) -> list[Table]:
        return [
            table
            for one, conv in pairs
            for table in (
                *evaluation_tables(one, width),
                *([nash_conv_table(one.game, conv)] if conv else ()),
            )
        ]

    pairs = list(zip(found, convs, strict=True))
    several = [
        one.to_dict() | ({"nash_conv": dict(conv)} if conv else {})
        for one, conv in pairs
    ]
    document = several[0] if len(several) == 1 else {"evaluations": several}
    show(form, document, [row for pair in pairs for row in records_of(*pair)], tables)


def _run(
    plans: "Sequence[EvaluationPlan]",
    bar: Callable[[int, int], None],
    out: Path | None,
) -> "list[Evaluation]":
    """Runs all plans under one progress bar."""
    from arena_eval.result_rows import append_results

    total, before, found = sum(plan.num_episodes for plan in plans), 0, []
    for plan in plans:

        def progress(done: int, _: int, before: int = before) -> None:
            bar(before + done, total)

        found.append(plan.run(progress, write=False))
        before += plan.num_episodes
    if out is not None:
        append_results(out, [one.to_dict() for one in found])
    return found


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
    how: PolicyOptions,
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

    first, *others = [
        make_policy(one) if isinstance(one, str) and one != "self" else one
        for one in how.policies(specs)
    ]
    plans = [
        EvaluationPlan(first, env, opponents_of(env.game, others), **options)
        for env in envs
    ]
    others = others or [make_policy("random")]
    of_a_run = any(map(is_past, specs[1:]))
    shown = [*others, first] if of_a_run else [first, *others]
    measures = [
        partial(
            nash_convs,
            shown,
            env,
            how.wrapper,
            MAX_INFORMATION_STATES if of_a_run else plan.num_episodes,
        )
        for env, plan in zip(envs, plans, strict=True)
    ]
    return plans, measures


def _kept(out: Path | None) -> Callable[[], str]:
    """Says of a stopped evaluation, which is about to begin, which episodes were kept."""
    before = _num_lines(out)

    def clause() -> str:
        count = _num_lines(out) - before
        if count:
            return (
                f"nothing was measured; episodes played so far are in {out}: {count}; "
                "the same command goes on"
            )
        if out is None:
            return "nothing was measured or kept; --out FILE keeps episodes as they end"
        return f"nothing was measured; no episode was added to {out}"

    return clause


def _num_lines(path: Path | None) -> int:
    return count_lines(path) if path is not None and path.is_file() else 0


def _end(lost: Sequence[str], out: Path | None) -> None:
    """Ends with status 1 if episodes are lost."""
    for text in lost:
        typer.echo(f"error: {text}", err=True)
    if lost:
        again = "the same command plays them again"
        if out is None:
            again = "--out FILE keeps the others, and then the same command plays them again"
        typer.echo(f"error: no figure includes the lost episodes; {again}", err=True)
        raise typer.Exit(1)


@as_command
def compare(
    base: str,
    trained: str,
    suite: str | None = None,
    games: list[str] | None = None,
    against: list[str] | None = None,
    num_episodes: int = 100,
    seed: int = 0,
    equal_tokens: bool = False,
    trained_on: list[str] | None = None,
    *,
    how: PolicyOptions,
    timeout: float | None = None,
    out: Path | None = None,
    report: Path | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Compare two policies on the same seeds and seats."""
    from arena_eval.comparison import ComparisonPlan, comparison_table

    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        if report and out is None:
            raise ValueError("want --out FILE with --report, got none; add it")
        opponents, prompt = _compared_games(suite, games, against)
        known, told = training_games(trained, trained_on)
        options: dict[str, Any] = {"prompt": how.wrapper, "defaults": prompt}
        options |= {"seed": seed, "num_episodes": num_episodes, "out": out}
        options |= {"timeout": timeout, "trained_on": known}
        options["equal_tokens"] = equal_tokens
        plan = ComparisonPlan(*_two(how, base, trained), opponents, **options)
    with running(_kept(out), policies=[base, trained]) as bar:
        records = [{**row, "trained_on": told} for row in plan.run(bar)]
    show_warnings([*plan.warnings])
    show(form, records, records, lambda _: [comparison_table(records)])
    if report and out is not None:
        with redirect_stdout(sys.stderr):
            write_page(paths=[out], out=report)
    _end(plan.unanswered, out)


def _two(
    how: PolicyOptions, base: str, trained: str
) -> "tuple[Policy | str, Policy | str]":
    """Both policies; the same one twice if the strings are equal."""
    found = how.policies([base] if base == trained else [base, trained])
    if len(found) != len({base, trained}):
        raise ValueError(f"want two policies, got {len(found)}: name past:RUN@STEP")
    return found[0], found[-1]


def _compared_games(
    suite: str | None, games: Sequence[str] | None, against: Sequence[str] | None
) -> tuple[dict[str, Sequence[str]], dict[str, Any]]:
    """The opponents by game, and prompt options; --games are in place of a suite's."""
    from arena_eval.tournament import load_suite

    if games and suite:
        raise ValueError("want --suite or --games, got both; leave one out")
    if games:
        return dict.fromkeys(games, against or ()), {}
    given = load_suite(suite or "transfer").given
    opponents = {one["game"]: against or one["opponents"] for one in given["games"]}
    return opponents, given["prompts"]["plain"]


def training_games(
    policy: str, given: Sequence[str] | None
) -> tuple[list[AnyGame] | None, list[str]]:
    """The games that a model was trained on, as given or as the runs of its folder say."""
    from arena_trainers.train.games import checked_entry, expanded

    if given:
        return [read_env(game, None, None).game for game in given], list(given)
    entries: list[Mapping[str, Any]] = []
    seen: set[Path] = set()
    while match := re.fullmatch(r"(lm:|past:)([^@]*)(@.*)?", policy):
        folder = Path(match[2]).absolute()
        near = (
            one for one in (folder, *folder.parents[:2]) if (one / CONFIG).is_file()
        )
        if (run := next(near, None)) is None or run in seen:
            break
        seen.add(run)
        settings = load_recipe(str(run / CONFIG))
        games = settings.get("games") or ()
        listing = split(games) if isinstance(games, str) else games
        entries += map(checked_entry, expanded(listing))
        policy = f"lm:{settings.get('model')}"  # the run that it started from
    found = [make(one["id"], **one.get("params", {})).game for one in entries]
    return found or None, [str(one["id"]) for one in entries]


@as_command
def attribute(
    policy: str,
    game: str,
    base: str = "random",
    against: str = "random",
    seats: list[int] | None = None,
    permutations: int | None = None,
    num_episodes: int = 100,
    seed: int = 0,
    *,
    how: PolicyOptions,
    timeout: float | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Attribute the difference of two policies to seats, by Shapley values.

    The values sum to the return of a team of POLICY less that of a team of the base, on the same
    seeds. Up to 8 seats all coalitions play; with more, --permutations samples orders of seats.
    Seeds with a lost episode are left out, and the status is 1.

    For example:

    arena attribute lm:runs/a/model "questions(protocol=debate)" --base lm:runs/a/start
    """
    from arena_eval.comparison import attributed, seats_table
    from arena_eval.matches import seeds_of

    specs = [policy, base, against]
    with usage_errors(), running("nothing was kept", policies=specs):
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        given = how.policies(specs), game, seeds_of(seed, num_episodes), seats
        rows, num_lost = attributed(*given, permutations, how.wrapper, timeout)
    told = f"sampled: {permutations} orders a seed" if permutations else "exact"
    title = f"{policy} in place of {base} in {game}: Shapley values, {told}"
    document = {"method": told, "lost": num_lost, "seats": rows}
    show(form, document, rows, lambda _: [seats_table(rows, title)])
    if num_lost:
        typer.echo(f"error: {num_lost} episodes are lost; play them again", err=True)
        raise typer.Exit(1)


MODEL = re.compile("(lm|api|vllm):")  # policies with a limit of tokens

board_app = group(
    "board",
    "Measure models on suites of games, in a form that anyone can verify.",
    rich_markup_mode=None,
)


@board_app.command("run")
@as_command
def run_board(
    policy: str,
    out: Path,
    suite: str = "standard",
    name: str = "",
    *,
    timeout: float | None = None,
) -> None:
    """Play a suite, and write a submission."""
    from arena_eval.tournament import load_suite, play_suite

    with usage_errors():
        loaded = load_suite(suite)
        limit = loaded.given["max_tokens"] if MODEL.match(policy) else None
        (made,) = PolicyOptions(max_new_tokens=limit).policies([policy])
        made = make_policy(made) if isinstance(made, str) else made
    advice = f"finished episodes are in {out}; the same command goes on"
    with running(advice, policies=[policy]) as bar, usage_errors():
        play_suite(loaded, made, out, name=name, timeout=timeout, progress=bar)
    typer.echo(f"{out} is finished; check it: arena board verify {out} --suite {suite}")


@board_app.command("verify")
@as_command
def verify_board(files: list[Path], suite: str = "standard") -> None:
    """Play the episodes of submissions again; status 1 if one does not hold."""
    from arena_eval.tournament import load_suite, verify_submission

    with usage_errors():
        loaded = load_suite(suite)
    for path in files:
        try:
            found = verify_submission(path, loaded)
        except (ValueError, OSError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"{path}: {len(found.episodes)} episodes of {found.name} hold")


@board_app.command("page")
@as_command
def page_board(files: list[Path], suite: str = "standard") -> None:
    """Verify submissions, and print their table as Markdown."""
    from arena_eval.tournament import load_suite, submissions_page

    with usage_errors():
        typer.echo(submissions_page(files, load_suite(suite)))


RESULTS, SUMMARY, PICTURE = "results.jsonl", "summary.json", "matrix.png"


@as_command
def tournament(
    policies: list[str],
    games: list[str],
    out: Path | None = None,
    num_episodes: int = 50,
    seed: int = 0,
    self_pairs: bool = False,
    *,
    how: PolicyOptions,
    timeout: float | None = None,
    params: list[str] | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Rate policies that play against each other."""
    from arena_envs.extras import import_extra
    from arena_eval.tournament import TournamentPlan, round_robin

    import_extra("matplotlib", "eval")  # fails before hours of play
    with usage_errors():
        out = wanted_folder(out)
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        plan = TournamentPlan(
            how.policies(policies),
            read_envs(games, params),
            num_episodes,
            seed=seed,
            self_pairs=self_pairs,
            prompt=how.wrapper,
            timeout=timeout,
            out=out / RESULTS,
        )
    advice = "finished episodes are kept; the same command resumes"
    with running(advice, policies=policies) as bar:
        found = plan.run(bar)
        (out / SUMMARY).write_text(_text(found) + "\n")
        round_robin.draw_matrix(found, out / PICTURE)
    show_warnings(found.warnings)
    tables = partial(round_robin.tournament_tables, found)
    show(form, found.to_dict(), round_robin.records_of(found), tables)


def _text(found: "Tournament") -> str:
    return json.dumps(found.to_dict(), indent=1, allow_nan=False)


LOADED = re.compile(r"\b(lm|past|vllm|best_of):")  # in strings of policies


@as_command
def play(
    game: str,
    against: list[str] | None = None,
    seat: int = 0,
    hint: str | None = None,
    seed: int | None = None,
    *,
    how: PolicyOptions,
    params: list[str] | None = None,
    max_turns: int | None = None,
    out: Path | None = None,
) -> None:
    """Play a game yourself, in the terminal."""
    from arena_eval.baselines import prepared
    from arena_eval.exploit import given_prompts

    with usage_errors():
        env = read_env(game, params, max_turns)
        rules = env.game
        _check(rules, seat, seed)
        for spec in (*(against or ()), *([hint] if hint else ())):
            if LOADED.search(spec):
                typer.echo(f"loading {spec} ...", err=True)
        others = _opponents(how.policies(against or ["random"]), rules)
        wrapper = PromptWrapper(env, **how.wrapper, seats={seat: PromptOptions("bare")})
        person = HumanPolicy(None if hint is None else prepared(hint, rules))
        log = None if out is None else EpisodeLog(out)
        if log is not None:
            log.append([])  # fails before the game
    policies = [*others[:seat], person, *others[seat:]]
    prompts = given_prompts(policies, how.prompt)
    start = secrets.randbits(32) if seed is None else seed
    while True:
        plan = EpisodePlan(lambda: wrapper, policies, start, prompts=prompts)
        episode = _played(plan)
        if log is not None:
            log.append([episode])
        _print_end(episode, rules, seat, policies)
        if not _wants_another():
            return
        start += 1


def _played(plan: EpisodePlan) -> Episode:
    try:
        (episode,) = play_plans([plan], on_error="raise")
    except KeyboardInterrupt:
        typer.echo("\nstopped")
        raise typer.Exit(130) from None
    except NoReplyError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    return episode


def _wants_another() -> bool:
    """Whether the person at the terminal wants another game; no without a terminal."""
    if not sys.stdin.isatty():
        return False
    try:
        return input("\nAnother game? [Y/n] ").strip().lower() in {"", "y", "yes"}
    except (EOFError, KeyboardInterrupt):
        return False


def _check(rules: AnyGame, seat: int, seed: int | None) -> None:
    if seat not in range(rules.num_players):
        raise ValueError(f"want --seat from 0 to {rules.num_players - 1}, got {seat}")
    if seed is not None and seed < 0:
        raise ValueError(f"want --seed of at least 0, got {seed}")


def _opponents(named: list[Policy | str], rules: AnyGame) -> list[Policy]:
    """The policies of the other seats: one for all of them, or one for each."""
    from arena_eval.baselines import prepared

    others = [prepared(policy, rules) for policy in named]
    want = rules.num_players - 1
    if len(others) == 1:
        others *= want
    if len(others) != want:
        raise ValueError(f"want {want} opponents (or one), got {len(others)}")
    return others


def _print_end(
    episode: Episode, rules: AnyGame, seat: int, policies: Sequence[Policy]
) -> None:
    """Prints how the episode ended, and warnings about replies."""
    from arena_eval.result_rows import ReplyCount

    text = ending(episode, rules, seat, policies, reveals=True)
    typer.echo(wrapped(text, sys.stdout))
    replies = ReplyCount()
    replies.add(episode)
    show_warnings(replies.warnings())
