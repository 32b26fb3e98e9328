"""The profile of a run: CPU and wall time by part."""

from typing import Any

from arena_trainers.train.clock import TIMES, Clock


def profile_of(clock: Clock) -> dict[str, Any]:
    """Turns and seconds since training began or resumed, of the main process.

    Returns:
        `turns`, `cpu_microseconds_per_turn` by part, and wall `seconds` by part; see
        `arena_trainers.train.metrics` for the parts.
    """
    spent, turns = clock.spent, clock.counts["turns"]
    return {
        "turns": turns,
        "cpu_microseconds_per_turn": {
            name: round(1e6 * spent[name].cpu / max(turns, 1), 1) for name in TIMES
        },
        "seconds": {name: round(spent[name].wall, 3) for name in TIMES},
    }


def profile_lines(profile: dict[str, Any]) -> list[str]:
    r"""The profile as two lines of at most 80 columns.

    >>> cpu = dict(zip(TIMES, (800.0, 90.0, 40.0, 600.0, 500.0)))
    >>> print("\n".join(profile_lines({"turns": 10733, "cpu_microseconds_per_turn": cpu})))
    CPU microseconds per turn (10,733 turns): environment 90, credit 40,
      generation 800, training 600, rest 500
    """
    cpu = profile["cpu_microseconds_per_turn"]
    order = ("environment", "credit", "generation", "training", "rest")
    words = [f"{name} {cpu[name]:.0f}" for name in order]
    head = f"CPU microseconds per turn ({profile['turns']:,} turns)"
    return [f"{head}: {words[0]}, {words[1]},", f"  {', '.join(words[2:])}"]
