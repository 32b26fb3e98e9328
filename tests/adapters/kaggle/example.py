"""Kaggle environments: a game whose agents read `observation.messages` and return a reply."""

from typing import Any

from kaggle_environments import register

from arena_envs import make_game
from arena_wrappers import SeatSession


def environment(game: str, seats: Any = "all", opponents: Any = ()) -> dict[str, Any]:
    """The environment of a game, for `register`; policies play the seats that are left."""
    own = range(make_game(game).num_players) if seats == "all" else seats

    def interpreter(state: Any, env: Any) -> Any:
        if env.done:  # a reset
            env.session = SeatSession(game, own, opponents)
            env.session.reset(env.configuration.get("seed"))
        elif lost := [one for one in state if one.status in ("ERROR", "TIMEOUT")]:
            for one in state:  # no result, and the agent that failed keeps its status
                one.status, one.reward = one.status if one in lost else "DONE", None
            return state
        else:
            env.session.step(state[own.index(env.session.seat)].action or "")
        session = env.session
        for seat, one in zip(own, state, strict=True):
            one.observation.messages = session.prompt(seat)
            one.reward = session.returns[seat]
            waits = "DONE" if session.done else "INACTIVE"
            one.status = (
                "ACTIVE" if not session.done and seat == session.seat else waits
            )
        return state

    return {
        "specification": {
            "name": f"arena_{game}",
            "agents": [len(own)],
            "configuration": {"seed": {"type": ["integer", "null"], "default": None}},
            "observation": {"messages": {"type": "array", "default": []}},
            "action": {"type": "string", "default": ""},
            "reward": {"type": "number", "default": 0},
        },
        "interpreter": interpreter,
        "renderer": lambda state, env: state[0].observation.messages[-1]["content"],
        "html_renderer": lambda: "",
    }


register("arena_kuhn_poker", environment("kuhn_poker"))
register("arena_kuhn_poker_cfr", environment("kuhn_poker", [0], "cfr"))
