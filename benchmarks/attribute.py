"""Shapley values of seats: how much each seat adds where a policy replaces another.

    python benchmarks/attribute.py lm:runs/a/model "questions(protocol=debate)" --base lm:runs/a/start

A coalition S of seats is played by POLICY, the team's other seats by the base, on the same seeds.
v(S) is the mean return of the team's seats. The value of seat i is

    sum over S without i of |S|! (m - |S| - 1)! / m! (v(S + i) - v(S)),   m seats,

so values sum to v(all) - v(none), which is checked. Up to 8 seats they are exact over coalitions; with
more, `--permutations N` samples N orders of seats for each seed, and the output says so. A seed is one
observation of the 95 % interval. Seeds with a lost episode are left out, counted, and the status is 1.
"""

import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Annotated, Any

import typer

from arena_envs.game import bounds_of
from arena_trainers.cli.options import (
    PolicyOptions,
    as_command,
    running,
    usage_errors,
)
from arena_trainers.evaluate.exploit import given_prompts
from arena_trainers.evaluate.intervals import mean_interval
from arena_trainers.evaluate.matches import checked_seats, env_of, seeds_of
from arena_wrappers import EpisodePlan, Policy, PromptWrapper, make_policy, stream_plans
from comparing import run_script

MAX_EXACT = 8  # seats
Coalition = frozenset[int]
Step = tuple[int, Coalition, float]  # seat, coalition that it joins, weight


def steps_of(
    seats: Sequence[int], num_permutations: int | None, seed: int
) -> list[Step]:
    """Who joins which coalition with which weight: exact, or sampled orders of a seed."""
    m = len(seats)
    if num_permutations is None:
        return [
            (seat, Coalition(joined), 1 / (m * math.comb(m - 1, size)))
            for seat in seats
            for size in range(m)
            for joined in itertools.combinations([s for s in seats if s != seat], size)
        ]
    rng, found = random.Random(f"orders {seed}"), []
    for _ in range(num_permutations):
        order = rng.sample(seats, m)
        found += [
            (seat, Coalition(order[:place]), 1 / num_permutations)
            for place, seat in enumerate(order)
        ]
    return found


def attributed(
    pair: Sequence[Policy],
    game: str,
    seats: Sequence[int],
    seeds: Sequence[int],
    num_permutations: int | None = None,
    other: Policy | None = None,
    prompt: dict[str, Any] | None = None,
    timeout: float | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """A record for each seat, and the number of lost episodes.

    Args:
        pair: the policy, and the base.
        game: the game's string.
        seats: the team.
        seeds: of the episodes.
        num_permutations: None for exact values.
        other: who plays the seats that are not of the team; None: uniform random play.
        prompt: arguments of the `PromptWrapper`.
        timeout: longest call of a policy, in seconds.

    Raises:
        ValueError: more than `MAX_EXACT` seats without `num_permutations`.
    """
    if len(seats) > MAX_EXACT and num_permutations is None:
        raise ValueError(
            f"want at most {MAX_EXACT} seats for exact values, got {len(seats)}; add "
            "--permutations 50 to sample orders"
        )
    env, given = env_of(game), prompt or {}
    wrapper = PromptWrapper(env, **{"on_invalid": "forfeit", **given})
    other = other or make_policy("random")
    steps = {seed: steps_of(seats, num_permutations, seed) for seed in seeds}
    keys = [
        (seed, coalition)
        for seed, joins in steps.items()
        for coalition in dict.fromkeys(c for s, j, _ in joins for c in (j, j | {s}))
    ]
    plans = []
    for seed, coalition in keys:
        team = {seat: pair[seat not in coalition] for seat in seats}
        lineup = [team.get(seat, other) for seat in range(env.game.num_players)]
        prompts = given_prompts(lineup, given)
        plans.append(EpisodePlan(wrapper.clone, lineup, seed, prompts=prompts))
    values: dict[tuple[int, Coalition], float] = {}
    for index, episode in stream_plans(plans, batch_size=256, timeout=timeout):
        if episode.lost is None:
            values[keys[index]] = fmean(episode.returns[seat] for seat in seats)
    lost = {key[0] for key in keys if key not in values}
    left = {seed: joins for seed, joins in steps.items() if seed not in lost}
    return list(_records(seats, left, values, bounds_of(env.game))), len(keys) - len(
        values
    )


def _records(
    seats: Sequence[int],
    steps: dict[int, list[Step]],
    values: dict[tuple[int, Coalition], float],
    bounds: tuple[float, float],
) -> Iterator[dict[str, Any]]:
    if not steps:
        raise ValueError("every seed has a lost episode; nothing is measured")
    everyone, spread = Coalition(seats), bounds[1] - bounds[0]
    shares: dict[int, list[float]] = {seat: [] for seat in seats}
    for seed, joins in steps.items():
        found = dict.fromkeys(seats, 0.0)
        for seat, coalition, weight in joins:
            gain = values[seed, coalition | {seat}] - values[seed, coalition]
            found[seat] += weight * gain
        total = values[seed, everyone] - values[seed, Coalition()]
        if abs(sum(found.values()) - total) > 1e-9 * max(1, abs(total)):
            raise RuntimeError(f"self-check failed: {found} do not sum to {total}")
        for seat, share in found.items():
            shares[seat].append(share)
    for seat, each in shares.items():
        low, high = mean_interval(each, -spread, spread)
        ends = {"value": fmean(each), "low": low, "high": high}
        yield {"seat": seat, **ends, "num_seeds": len(each)}


@as_command
def attribute(
    policy: str,
    game: str,
    base: Annotated[str, typer.Option(help="Who plays instead.")] = "random",
    against: Annotated[str, typer.Option(help="Who plays other seats.")] = "random",
    seats: Annotated[
        list[int] | None, typer.Option("--seat", help="Seats. [default: a team]")
    ] = None,
    permutations: Annotated[
        int | None, typer.Option(min=1, help="Sample so many orders for each seed.")
    ] = None,
    num_episodes: Annotated[
        int, typer.Option("--episodes", "-n", help="Episodes per opponent and seat.")
    ] = 100,
    seed: int = 0,
    *,
    how: PolicyOptions,
    timeout: float | None = None,
    as_json: bool = False,
) -> None:
    """Attribute the difference of two policies to seats."""
    with usage_errors():
        found = how.policies([policy, base, against])
        made = [make_policy(p) if isinstance(p, str) else p for p in found]
        rules = env_of(game).game
        team = [s for s in range(rules.num_players) if rules.teams[s] == rules.teams[0]]
        chosen = checked_seats(rules, seats or team)
        if len(chosen) < 2 or len(made) != 3:
            raise ValueError(
                f"want a team of two seats at least, and three policies, got seats "
                f"{list(chosen)} and {len(made)} policies; name seats with --seat"
            )
        seeds = seeds_of(seed, num_episodes)
        options = (permutations, made[2], how.wrapper, timeout)
        with running("nothing was kept", policies=[policy, base, against]):
            rows, num_lost = attributed(made[:2], game, chosen, seeds, *options)
    told = f"sampled: {permutations} orders a seed" if permutations else "exact"
    if as_json:
        typer.echo(json.dumps({"method": told, "lost": num_lost, "seats": rows}))
    else:
        typer.echo(f"# {policy} in place of {base} in {game}, Shapley values, {told}")
        typer.echo("seat\tn\tvalue (95 %)")
        for row in rows:
            ends = "{value:z.3f} ({low:z.3f} to {high:z.3f})".format(**row)
            typer.echo(f"{row['seat']}\t{row['num_seeds']}\t{ends}")
        typer.echo(
            f"# below 0: {policy} in the seat lowers the team's return. Intervals of 95 % hold "
            "for any returns of {:g} to {:g};\n# below 50 seeds they are wide, and may go "
            "below 0 where no value does".format(*bounds_of(rules))
        )
    if num_lost:
        typer.echo(f"error: {num_lost} episodes are lost; play them again", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    run_script(attribute)
