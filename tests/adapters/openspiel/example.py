"""OpenSpiel's CFR on a game of ours, and our solver and prompts on a game of OpenSpiel's."""

from open_spiel.python.algorithms import cfr, exploitability

from arena_envs import GameEnv
from arena_envs.solvers import nash_conv, uniform_table
from arena_wrappers import play
from arena_wrappers.adapters.openspiel import from_openspiel, to_openspiel


def main() -> tuple[float, float, str]:
    """NashConv of their CFR, of uniform play by our solver, and a prompt."""
    ours = to_openspiel("kuhn_poker")
    solver = cfr.CFRSolver(ours)
    for _ in range(100):
        solver.evaluate_and_update_policy()
    found = exploitability.nash_conv(ours, solver.average_policy())
    theirs = from_openspiel("kuhn_poker")
    uniform = nash_conv(theirs, uniform_table(theirs))
    (episode,) = play(lambda: GameEnv(theirs), "random", [0])
    return found, uniform, episode.turns[0].messages[-1]["content"]


if __name__ == "__main__":
    print(*main(), sep="\n")
