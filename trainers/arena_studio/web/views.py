"""What a page shows of a game: a seat's view, a replay, the values of moves.

A session is a `SeatSession`, or the one of the site's page, which has no environment.
"""

from typing import TYPE_CHECKING, Any

from arena_envs.game import AnyGame
from arena_envs.scenes import scene_of
from arena_eval.move_values import MoveSolver
from arena_wrappers.prompts import PromptOptions, messages
from arena_wrappers.records import Turn

if TYPE_CHECKING:  # the site's page has no environments
    from arena_wrappers.play import SeatSession


def action_text(game: AnyGame, turn: Turn) -> str:
    """The action of a turn in its canonical text; empty if it was a forfeit."""
    if turn.action is None or game.num_actions is None:
        return turn.action or ""
    return game.action_text(turn.state, turn.action)


def seat_view(session: "SeatSession", seat: int) -> dict[str, Any]:
    """What a seat may know of its game now; equal in states that it cannot tell apart."""
    game, state, done = session.game, session.state, session.done
    mine = not done and session.seat == seat
    base: dict[str, Any] = {
        "seat": seat,
        "to_move": None if done else session.seat,
        "yours": mine,
        "talk": game.num_actions is None,
        "rules": game.rules(seat),
        "text": game.observe(state, seat),
        "scene": _plain(scene_of(game, state, seat)),
        "legal": session.info()["legal"] if mine else [],
        "prompt": messages(game, state, seat, PromptOptions()) if mine else [],
        "history": _history(session),
        "done": done,
    }
    if done:
        base["returns"] = session.returns
    return base


def _history(session: "SeatSession") -> list[tuple[int, str]]:
    """Seat and action of each past turn, where all seats know them: in open games, or at the end."""
    game = session.game
    is_open = game.information == "perfect" and not game.simultaneous
    is_talk = game.num_actions is None  # its picture has the words
    if is_talk or not (is_open or session.done):
        return []
    return [(turn.seat, action_text(game, turn)) for turn in session.turns]


def _plain(value: Any) -> Any:
    """A scene as JSON holds it: each shape is an object that names its kind."""
    if hasattr(value, "_asdict"):
        parts = value._asdict().items()
        return {"kind": type(value).__name__, **{k: _plain(v) for k, v in parts}}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def values_at(
    solver: MoveSolver, game: AnyGame, turn: Turn, number: int
) -> dict[str, Any]:
    """Values of the legal actions at a turn, the reference's mix, regret and advantage.

    The advantage is Q(s, a) - Σ π(b|s) Q(s, b) for the mix π.
    """
    solved_game = solver.solve(game, [turn], [turn.state])
    (moves,) = solved_game.turns
    if moves is None:
        return {"turn": number, "seat": turn.seat, "fault": solved_game.fault}
    pairs = zip(moves.mix, moves.values, strict=True)
    expected = sum(chance * value for chance, value in pairs)
    played = moves.played
    return {
        "turn": number,
        "seat": turn.seat,
        "actions": list(moves.actions),
        "values": list(moves.values),
        "mix": list(moves.mix),
        "played": played,
        "regret": moves.regret,
        "advantage": None if played is None else moves.values[played] - expected,
        "reference": solved_game.reference,
    }


def frames(session: "SeatSession", start: int = 0) -> dict[str, Any]:
    """The turns of a game from `start` on and its end, as a viewer sees who may see all."""
    game = session.game
    returns_to_go, turns = [0.0] * game.num_players, list[dict[str, Any]]()
    for turn in reversed(session.turns[start:]):
        returns_to_go[turn.seat] += turn.reward
        turns.append(
            {
                "seat": turn.seat,
                "reply": action_text(game, turn) or turn.reply,
                "words": turn.reply,
                "invalid": turn.detail,
                "reward": turn.reward,
                "to_go": returns_to_go[turn.seat],
                "scene": _plain(scene_of(game, turn.state)),
            }
        )
    return {
        "turns": turns[::-1],
        "end": _plain(scene_of(game, session.state)),
        "done": session.done,
        "returns": session.returns,
    }
