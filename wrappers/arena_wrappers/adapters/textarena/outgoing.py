"""`to_textarena`: one of our games as an environment of TextArena."""

from typing import Any

import textarena as ta
from textarena.core import Env
from textarena.envs.registration import register
from textarena.wrappers import GameBoardObservationWrapper

import arena_envs
from arena_envs import GameEnv
from arena_envs.game import AnyGame
from arena_wrappers.play import said
from arena_wrappers.prompts import InvalidReply, PromptOptions, Seating

OPTIONS = PromptOptions("bracket")


def to_textarena(
    game: str | AnyGame, error_allowance: int = 1, **params: Any
) -> "TextArenaEnv":
    """A game as TextArena's environment.

    Args:
        game: id of a game, or the rules.
        error_allowance: how often a player may reply again after an invalid reply.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Raises:
        ValueError: as for `arena_envs.make`.
    """
    if isinstance(game, str):
        return TextArenaEnv(arena_envs.make(game, **params), error_allowance)
    return TextArenaEnv(GameEnv(game, **params), error_allowance)


class TextArenaEnv(Env):  # type: ignore[misc]  # TextArena is not annotated
    """All seats of a game, as TextArena plays them.

    - Observation: TextArena's messages. The rules are the player's prompt; each turn sends a
      board, which is the text of the state with the legal actions. `textarena.make` adds the
      wrapper that shows the prompt and the latest board.
    - Action: a reply with the action in `[...]`.
    - An invalid reply changes nothing: the player reads the reason and replies again. Beyond
      `error_allowance` in one turn, the player forfeits as `Game.forfeit` says.
    - Rewards of `close()`: the return of each player.

    Args:
        env: the environment.
        error_allowance: how often a player may reply again.
    """

    def __init__(self, env: GameEnv, error_allowance: int = 1) -> None:
        self.env = env
        self._error_allowance = error_allowance
        self._seating = Seating(OPTIONS, {}, env.game.num_players)

    def reset(self, num_players: int | None = None, seed: int | None = None) -> None:
        """Starts an episode; `num_players` is checked, since the game fixes it."""
        game = self.env.game
        if num_players not in (None, game.num_players):
            raise ValueError(
                f"want num_players={game.num_players}, got {num_players!r}"
            )
        self.env.reset(seed=seed)
        # without the seed, which would seed Python's global generator
        self.state = ta.MinimalMultiPlayerState(
            game.num_players, error_allowance=self._error_allowance
        )
        self.state.reset(game_state={}, player_prompt_function=self._prompt)
        self._show()

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        env = self.env
        if self.state.done:
            raise ValueError("no episode is running: call reset()")
        outcome = OPTIONS.parse(
            env.game, env.game_state, action, list(env.legal_texts())
        )
        if not isinstance(outcome, InvalidReply):
            env.step(said(env, outcome))
            self._show()
        elif self.state.set_invalid_move(outcome.detail):
            env.forfeit(env.agent_selection)
            self._show()
        else:
            self._show(f"Your reply was invalid: {outcome.detail} Reply again.")
        return self.state.step(rotate_player=False)  # type: ignore[no-any-return]

    def _prompt(self, player_id: int, game_state: Any) -> str:
        view = self._seating.view(self.env.game, self.env.game_state, player_id)
        return view.prompt[0]["content"]

    def _show(self, remark: str = "") -> None:
        """Sends boards: to the player to move; at the end, to all."""
        env, board = self.env, ta.ObservationType.GAME_BOARD
        over = any((*env.terminations.values(), *env.truncations.values()))
        mover = env.possible_agents.index(env.agent_selection)
        for seat in range(env.game.num_players) if over else [mover]:
            view = self._seating.view(env.game, env.game_state, seat)
            text = "\n".join(
                [view.prompt[-1]["content"], *([remark] if remark else [])]
            )
            self.state.add_observation(text, board, to_id=seat)
        if not over:
            self.state.manually_set_current_player_id(mover)
            return
        loser = env.forfeited_by
        reason = "The game is over." if loser is None else f"Player {loser} forfeited."
        self.state.set_game_outcome(dict(enumerate(env.returns)), reason)


def register_games() -> None:
    """Registers every game as `arena/ID`."""
    for info in arena_envs.game_infos():
        register(
            f"arena/{info.id}",
            to_textarena,
            default_wrappers=[GameBoardObservationWrapper],
            game=info.id,
        )
