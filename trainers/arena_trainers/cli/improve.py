"""The command `arena improve`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from arena_envs.game import AnyGame
from arena_eval.improve.rounds import PAST_SELVES
from arena_eval.improve.rows import ROWS, TEXT
from arena_studio.report.improve_report import (
    improve_page,
    records_of,
    silent_rounds,
)
from arena_trainers.cli.arguments import check_out, read_env, required_folder
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AgainstOption,
    CsvOption,
    GameArgument,
    LatexOption,
    MaxCostOption,
    MaxTokensOption,
    MaxTurnsOption,
    ParamOption,
    PolicyArgument,
    PolicyOptions,
    PricesOption,
    SeedOption,
    TimeoutOption,
    with_policy_options,
)
from arena_trainers.cli.output import JsonOption, one_form, show
from arena_trainers.cli.progress import running
from arena_trainers.cli.report import PAGE_NAME, REPORT_PAGE
from arena_trainers.matchmaking import is_past
from arena_wrappers import Policy, as_policy
from arena_wrappers.policies.protocol import own_prompt
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from arena_eval.improve import Improvement, Proposer

SHORT = 80  # characters of a text in a table
OPENINGS = "openings"  # the proposer without a model


@with_policy_options
def improve(
    policy: PolicyArgument,
    game: GameArgument,
    against: AgainstOption = None,
    proposer: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="Policy that writes texts; openings: statistics of first actions, without a model.",
        ),
    ] = OPENINGS,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run; required.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds.", min=1)] = 5,
    candidates: Annotated[int, typer.Option(help="Texts per round.", min=1)] = 4,
    num_episodes: Annotated[
        int,
        typer.Option(
            "--episodes",
            "-n",
            help="Most seeds for each stage of a round: play, race and confirmation.",
            min=1,
        ),
    ] = 200,
    seats: Annotated[
        list[int] | None,
        typer.Option(
            "--seat",
            help="Seat that plays with the text; repeatable. [default: all]",
            min=0,
        ),
    ] = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    params: ParamOption = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = None,
    *,
    policy_options: PolicyOptions,
    max_turns: MaxTurnsOption = None,
    max_tokens: MaxTokensOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
) -> None:
    """Improve the text in a policy's prompts, without training.

    Each round has four stages. Play: the policy plays with the current text. Proposal: the
    proposer reads some of these games, and writes texts. It reads those with invalid replies,
    and those with the largest regret by exact analysis or the lowest returns. Race: all texts
    play the same new seeds. Confirmation: the best text plays new seeds again, and replaces the current text if the interval of the paired difference of
    their returns lies above 0. With probability 0.95 every replacement of a run is an improvement.
    Only the prompts of the policy's own seats contain the text.

    POLICY must read prompts: lm:PATH, api:MODEL@URL, vllm:URL, an agent of these, or module:name.
    The first text is the persona of --prompt, or empty. DIR gets text.txt (the current text),
    texts.jsonl (each finished step), report.html and the episodes of each round. --against
    past_selves: the policy with each text that the run has kept so far, a population that grows. After an
    interruption the same command continues. To play with the text, give
    --prompt persona=@DIR/text.txt to any command. As an opponent, the policy with the text is
    text:DIR/text.txt(POLICY). So two roles can improve in turn: --seat 0 against the text of
    seat 1, then --seat 1 against the text of seat 0.

    For example:

    arena improve api:MODEL@http://localhost:8000/v1 kuhn_poker --against cfr --proposer api:MODEL@http://localhost:8000/v1 --max-tokens 2000000 --out runs/text

    arena improve lm:models/small mini_hanabi --proposer api:MODEL --prompt persona=@notes.txt --out runs/hanabi

    arena improve my_player:play kuhn_poker --proposer openings --rounds 2 --out runs/openings
    """
    from arena_envs.extras import import_extra
    from arena_eval.improve import Improvement
    from arena_eval.spending import Budget, read_prices

    import_extra("jinja2", "report")  # fails before hours of play
    with usage_errors():
        out = required_folder(out)
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        env = read_env(game, params, max_turns)
        _check_folder(out)
        price_table = read_prices(prices) if prices else None
        prompt = dict(policy_options.prompt)
        start = prompt.pop("persona", "")
        # an option of the command would replace the texts
        policy_options = replace(policy_options, prompt=prompt)
        player, author, opponents = _players(
            policy_options, policy, proposer, against or [], env.game, timeout
        )
        improvement = Improvement(
            player,
            env,
            opponents,
            author,
            out=out,
            num_rounds=rounds,
            num_texts=candidates,
            num_episodes=num_episodes,
            seats=seats or "all",
            seed=seed,
            start=start or _carried_text(player),
            prompt=policy_options.wrapper,
            budget=Budget(max_tokens, max_cost, price_table),
            timeout=timeout,
        )
        cost = ""
        if improvement.budget.is_used:
            cost = (
                f", about {improvement.expected(price_table)}, and the proposer's calls"
            )
    typer.echo(f"plays at most {improvement.max_episodes:,} games{cost}", err=True)
    records = _run(improvement, out, [policy, *(against or [])])
    document = {"text": improvement.text, "texts": records}
    show(form, document, records, lambda _: [_table(records, improvement.text, out)])


def _run(
    improvement: "Improvement", out: Path, policies: Sequence[str]
) -> list[dict[str, Any]]:
    """Runs all rounds, writes the page after each step, and says what was used; the texts."""

    def write_page() -> None:
        write_whole(out / PAGE_NAME, improve_page(out))

    advice = f"finished steps are in {out}; the same command goes on"
    with running(advice, "improving", policies=policies) as bar:
        rows = improvement.run(write_page, bar)
        write_page()
    if improvement.budget.is_used:
        typer.echo(f"used {improvement.budget.spent()}", err=True)
    if improvement.has_spent_budget:
        typer.echo(
            "stopped: the budget does not pay another step; a larger one goes on",
            err=True,
        )
    for sentence in silent_rounds(rows):
        typer.echo(sentence, err=True)
    return records_of(rows)


def _check_folder(out: Path) -> None:
    """Raises ValueError for a folder with other things than a run of this command."""
    files = [*out.glob("[!.]*")] if out.is_dir() else []  # a lock is hidden
    if files and not (out / ROWS).is_file():
        raise ValueError(
            f"want --out as a new or empty folder, or one of arena improve, got {str(out)!r}, "
            f"which has files but no {ROWS}"
        )
    if out.exists():
        check_out(out / PAGE_NAME, REPORT_PAGE, "arena improve")


def _players(
    policy_options: PolicyOptions,
    policy: str,
    proposer: str,
    against: Sequence[str],
    game: AnyGame,
    timeout: float | None,
) -> "tuple[Policy, Proposer, list[Policy | str]]":
    """The policy, the proposer, which may be the same model, and the opponents."""
    from arena_eval.improve import ModelProposer, OpeningsProposer

    for spec in (policy, proposer):
        if is_past(spec) and "@" not in spec:
            raise ValueError(f"want one policy, got {spec!r}; name past:RUN@STEP")
    authors = [] if proposer in (OPENINGS, policy) else [proposer]
    named = [spec for spec in against if spec != PAST_SELVES]
    players = policy_options.policies([policy, *authors, *named])
    player = as_policy(players[0])
    author: Proposer
    if proposer == OPENINGS:
        author = OpeningsProposer(game)
    else:
        writer = as_policy(players[1]) if authors else player
        author = ModelProposer(writer, timeout)
    opponents: list[Policy | str] = list(players[1 + len(authors) :])
    population = [PAST_SELVES] if PAST_SELVES in against else []
    return player, author, [*opponents, *population]


def _carried_text(policy: "Policy") -> str:
    """The persona in the policy's own prompt options, such as those of a saved model."""
    options = own_prompt(policy)
    return options.persona if options else ""


def _table(records: Sequence[Mapping[str, Any]], text: str, out: Path) -> Table:
    accepted = [record for record in records if record["is_accepted"]]
    nothing = "no text was better" if records else "no text was proposed"
    last = f"text {accepted[-1]['number']}" if accepted else nothing
    file = out / TEXT
    caption = f"race, confirmation: difference of mean returns from the text of that time\n{last}"
    if text:
        caption += f"; play with {file}: --prompt persona=@{file}"
    table = Table(
        title="texts", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD
    )
    for head in ("round", "number", "race", "confirmation", "kept", "text"):
        table.add_column(head, overflow="fold")
    for record in records:
        line = " ".join(record["text"].split())
        cells = [
            str(record["round"]),
            str(record["number"]),
            record["race"],
            record["confirmation"],
            "yes" if record["is_accepted"] else "",
            line if len(line) <= SHORT else f"{line[:SHORT]}...",
        ]
        table.add_row(*cells)
    return table
