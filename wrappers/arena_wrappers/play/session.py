"""`SeatSession`: one seat of a game, or several, as messages and replies."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import arena_envs
from arena_envs.checks import checked_seed, short
from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_wrappers.play.asking import NoReplyError, ask, checked_timeout
from arena_wrappers.play.episodes import EnvCache, EnvCaches, LiveEpisode
from arena_wrappers.play.plans import EnvFn, EpisodePlan
from arena_wrappers.play.seats import (
    Opponents,
    checked_opponents,
    checked_sample,
    checked_seat,
    outcome_of,
)
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    INSTEAD,
    Policy,
    Reply,
    ScriptedPolicy,
    TurnRequest,
    turn_seed,
)
from arena_wrappers.prompts import InvalidReply, Message
from arena_wrappers.records import Episode, Turn

SeatChoices = int | Literal["random", "all"] | Sequence[int]

NO_EPISODE = "no episode is running: call reset()"


class SeatSession:
    """One seat of a game, or several, as messages and replies; policies play the others.

    Sessions do not depend on each other, so that many may run at once, in threads too. The
    record of an episode is that of `play` with the same replies.

    Args:
        game: id of a registered game, the rules, or a function that makes the environment, as
            for `play`.
        seat: the session's seat; `"random"` draws one for each episode; `"all"` or a list
            gives it several, whose replies `step` takes in turn.
        opponents: a policy or a string for `make_policy`, or one per other seat.
        prompt: arguments of `PromptWrapper`, such as `{"reply_format": "boxed"}`. Without a
            `penalty` an invalid reply costs what the game's forfeit costs.
        credit: a function that gives one value for each turn of an episode. At the end of an
            episode, `info["credit"]` has those of the session's turns.
        timeout: seconds that a reply of an opponent may take; None for no limit.
        name: name of the session in records.
        asks: whether the session asks the opponents. Else the caller does: `request` has what
            the seat to move is asked, whoever plays it, and `step` takes its reply.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Attributes:
        seat: the seat to move; at the end, that of the last reply.
        done: whether the episode is over.

    Raises:
        ValueError: as for `arena_envs.make`, `make_policy` and `PromptWrapper`; the seat or
            the number of opponents does not fit the game.
    """

    def __init__(
        self,
        game: str | AnyGame | EnvFn,
        seat: SeatChoices = 0,
        opponents: Opponents = "random",
        *,
        prompt: Mapping[str, Any] | None = None,
        credit: Callable[[Episode], Sequence[Any]] | None = None,
        timeout: float | None = None,
        name: str = "session",
        asks: bool = True,
        **params: Any,
    ) -> None:
        self._asks = asks
        self._make = _maker(game, prompt, params)
        env: Any = self._make().unwrapped
        self.game: AnyGame = env.game
        self.agents: list[str] = env.possible_agents
        self._credit, self._timeout = credit, checked_timeout(timeout)
        self._session_policy = ScriptedPolicy((), name)
        self._policy_of_spec: dict[str, Policy] = {}
        self._caches = EnvCaches()
        self._seed = 0
        # None: made of the seed when used; before the first seed, not of the global generator
        self._rng: random.Random | None = random.Random()
        self._live: LiveEpisode | None = None
        self._cache: EnvCache | None = None  # of these seats
        self.done, self.seat = True, 0  # until the first reset
        self._choose(seat, opponents)

    def reset(
        self,
        seed: int | None = None,
        seat: SeatChoices | None = None,
        opponents: Opponents | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        """Starts an episode.

        If it ends before the session's first turn, `done` is true, and the first `step`
        reports the end with reward 0, whatever the reply.

        Args:
            seed: of chance, a random seat and the opponents; None draws one from the
                generator that the last given seed has started.
            seat: as for the class; None as before.
            opponents: as for the class; None as before.
            options: as for `SeatEnv.reset`.

        Returns:
            The prompt of the seat to move.

        Raises:
            NoReplyError: an opponent gave no reply. The episode is lost.
            ValueError: an argument is out of range. The running episode goes on.
        """
        sample = checked_sample(options, seed)
        if seat is not None or opponents is not None:
            self._choose(
                self.seats if seat is None else seat,
                self.opponents if opponents is None else opponents,
            )
        if seed is None:
            self._rng = self._rng or random.Random(self._seed)
            seed = self._rng.getrandbits(63)
        else:
            self._seed, self._rng = checked_seed(seed), None
        self._begin(seed, sample, options or {})
        return self._play_opponents(self._running())

    def step(
        self, reply: str | Reply
    ) -> tuple[list[Message], float, bool, dict[str, Any]]:
        """Plays a reply of the seat to move, then the opponents' turns.

        A `Reply` may hold tokens, or say what makes it invalid.

        Returns:
            The next prompt; what the seat was paid since its prompt before; whether the
            episode is over; and the info:

            | Key | Value |
            |---|---|
            | `agent`, `legal` | who is to move, and the texts of its legal actions |
            | `rewards` | what this step paid each of the session's agents |
            | `invalid` | why the reply was invalid; None if it was legal |
            | `truncated` | whether `max_turns` has ended the episode |
            | `outcome` | at the end: `returns` of all seats, `measures`, `forfeited_by` |
            | `turn_rewards` | at the end: what was paid for each of the session's turns |
            | `credit` | at the end, on request: see the class |

        Raises:
            NoReplyError: an opponent gave no reply, or `reply` has an error. The episode is
                lost.
            ValueError: no episode is running. A reply raises nothing.
            TypeError: the reply is no text and no `Reply`.
        """
        live, mover = self._running(), self.seat
        if not isinstance(reply, Reply):
            if not isinstance(reply, str):
                raise TypeError(f"want a text as reply, got {short(reply)}")
            reply = Reply(reply)
        returns_before, invalid, penalty = live.base.returns, None, 0.0
        if not self.done:
            live.take(reply)
            if live.lost is not None:
                self._ended = True
                raise NoReplyError(live.lost)
            turn = live.turns[-1]
            invalid = turn.detail
            if invalid is not None:
                penalty = turn.rewards["format"]
        prompt = self._play_opponents(live)
        info = self.info()
        rewards = info["rewards"]
        if returns_before is not (returns := live.base.returns):
            for seat in self._seats:
                rewards[self.agents[seat]] = float(returns[seat] - returns_before[seat])
        agent = self.agents[mover]
        if agent in rewards:
            rewards[agent] += penalty
        info["invalid"] = invalid
        if self.done:
            info |= self._ending(live)
            self._ended = True
        return prompt, rewards.get(agent, 0.0), self.done, info

    def request(self) -> tuple[Policy | None, TurnRequest]:
        """The policy of the seat to move, and what it is asked; None for the session's seats."""
        live = self._running()
        return None if self._is_session_turn(live) else live.policy, live.pending

    def read(self, reply: str) -> Any | InvalidReply:
        """The action that a reply of the seat to move names; plays nothing."""
        env = self._running().env
        options = env.options_of(self.seat)
        return options.parse(
            self.game, env.env.game_state, reply, env.legal_texts() or None
        )

    def info(self) -> dict[str, Any]:
        """The info of a prompt without a reply; see `step`."""
        live = self._running()
        agent = self.agents[self.seat]
        return {
            "agent": agent,
            "legal": [] if self.done else live.pending.legal,
            "truncated": live.base.truncations[agent],
            "rewards": dict.fromkeys(self._session_agents, 0.0),
            "invalid": None,
        }

    def prompt(self, seat: int) -> list[Message]:
        """The prompt of any seat, as it would read now."""
        return self.environment.observe(self.agents[seat])

    def plan(self, seed: int, sample: int, policy: Policy) -> EpisodePlan:
        """The episode for `play_plans`, with a policy in the session's seats."""
        seats = [
            policy if seat_policy is self._session_policy else seat_policy
            for seat_policy in self._seat_policies
        ]
        return EpisodePlan(self._make, seats, seed, sample)

    @property
    def returns(self) -> list[float]:
        """What each seat was paid so far."""
        return [
            float(seat_return)
            for seat_return in self._running(even_ended=True).base.returns
        ]

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns of all seats so far."""
        return self._running(even_ended=True).turns

    @property
    def state(self) -> Any:
        """The state of the game, hidden parts included."""
        return self._running(even_ended=True).base.game_state

    @property
    def environment(self) -> PromptWrapper:
        """The environment of the episode; stepping it breaks the record."""
        return self._running(even_ended=True).env

    @property
    def episode(self) -> Episode:
        """The record of the episode so far."""
        return self._running(even_ended=True).record()

    def save(self) -> dict[str, Any]:
        """The seed and all replies, as JSON holds them; the episode may be running."""
        live = self._running(even_ended=True)
        chance = (live.plan.options or {}).get("chance")
        return {
            "seed": live.plan.seed,
            "sample": live.plan.sample,
            "seats": list(self._seats),
            **({} if chance is None else {"chance": list(chance)}),
            # with what makes a reply invalid whatever its text
            "replies": [
                [turn.reply, "overlong" if turn.truncated else turn.invalid]
                if turn.truncated or turn.invalid in INSTEAD
                else turn.reply
                for turn in live.turns
            ],
        }

    def __copy__(self) -> "SeatSession":
        raise TypeError(
            "want copy.deepcopy(session), or save() and restore() of an equal session: "
            "copy.copy would share the episode"
        )

    def restore(self, saved: Mapping[str, Any]) -> list[Message]:
        """Goes on with a saved episode of an equal session; asks no policy for old replies.

        Args:
            saved: what `save` returned.

        Returns:
            The prompt of the seat to move.

        Raises:
            NoReplyError: as for `reset`.
            ValueError: `saved` has another form, is of other seats, or has more replies than
                the episode takes. Then call `reset`.
        """
        seed, sample, seats, replies, options = _checked_save(saved)
        self._seed, self._rng = seed, None
        self._begin(seed, sample, options)
        live, self._ended = self._running(), True  # stays so after an error
        if seats != self._seats:
            raise ValueError(
                f"want a save of the seats {self._seats}, got one of {seats}; make the "
                "session with these"
            )
        for number, reply in enumerate(replies):
            if live.is_over:
                raise ValueError(
                    f"want at most {number} replies, after which the episode is over, "
                    f"got {len(replies)}; make the session with the parameters of the "
                    "save"
                )
            if self._is_session_turn(live):
                self.seat = live.seat
            live.request()
            live.take(reply)
        self._ended = live.is_over and any(t.seat in seats for t in live.turns)
        return self._play_opponents(live)

    def _choose(self, seat: SeatChoices, opponents: Opponents) -> None:
        """Checks and sets seats and opponents."""
        num_players = len(self.agents)
        self._draws = isinstance(seat, str) and seat == "random"
        if isinstance(seat, str) and seat == "all":
            seat = range(num_players)
        seat_list: Any = [0] if self._draws else seat
        if isinstance(seat_list, str) or not isinstance(seat_list, Sequence):
            seat_list = [seat_list]
        own_seats = sorted({checked_seat(number, num_players) for number in seat_list})
        if not own_seats:
            raise ValueError("want at least one seat, got none; give seat=0")
        num_others = num_players - len(own_seats)
        policies = checked_opponents(opponents, num_others, self._policy_of_spec)
        self.seats, self.opponents = seat, policies
        self._sit(own_seats)

    def _begin(self, seed: int, sample: int, options: Mapping[str, Any]) -> None:
        if self._draws:
            rng = random.Random(turn_seed(seed, 0, 0, len(self.agents)))
            self._sit([rng.randrange(len(self.agents))])
        if self._live is not None:  # its environment is free
            self._live.cache.free.append(self._live.env)
        chance = {"chance": options["chance"]} if "chance" in options else None
        plan = EpisodePlan(self._make, self._seat_policies, seed, sample, chance)
        self._cache = self._cache or self._caches.of(plan)
        self._live = LiveEpisode((0,), plan, self._cache)
        self._ended, self.seat = False, self._seats[0]

    def _sit(self, seats: list[int]) -> None:
        """Seats the session, and the opponents in the seats that are left, in their order."""
        others = iter(self.opponents)
        self._seats, self._cache = seats, None
        self._session_agents = [self.agents[seat] for seat in seats]
        self._seat_policies = [
            self._session_policy if seat in seats else next(others)
            for seat in range(len(self.agents))
        ]
        self.seat = seats[0]

    def _play_opponents(self, live: LiveEpisode) -> list[Message]:
        """Lets the opponents play; the prompt of the session's next turn."""
        try:
            while not live.is_over and self._asks and not self._is_session_turn(live):
                (reply,) = ask(live.policy, [live.request()], self._timeout, "raise")
                live.take(reply)
        except BaseException:
            self._ended = True  # lost
            raise
        self.done = live.is_over
        if self.done:
            return self.prompt(self.seat)
        self.seat = live.seat
        return list(live.request().messages)

    def _is_session_turn(self, live: LiveEpisode) -> bool:
        return live.policy is self._session_policy

    def _running(self, even_ended: bool = False) -> LiveEpisode:
        if self._live is None or (self._ended and not even_ended):
            raise ValueError(NO_EPISODE)
        return self._live

    def _ending(self, live: LiveEpisode) -> dict[str, Any]:
        own_turns = [turn.seat in self._seats for turn in live.turns]
        info: dict[str, Any] = {
            "outcome": outcome_of(live.base),
            "turn_rewards": [t.reward for t in live.turns if t.seat in self._seats],
        }
        if self._credit is not None:
            values = zip(own_turns, self._credit(live.record()), strict=True)
            info["credit"] = [value for is_own, value in values if is_own]
        return info


def conversation_prompts(game: str | AnyGame | EnvFn) -> dict[str, Any] | None:
    """Prompt options for a game of an id, in which a seat's turns are one conversation; else None."""
    return {"history": "transcript", "penalty": 0.5} if isinstance(game, str) else None


def _maker(
    game: str | AnyGame | EnvFn,
    prompt: Mapping[str, Any] | None,
    params: Mapping[str, Any],
) -> EnvFn:
    if callable(game):
        if prompt or params:
            raise ValueError("want prompts and parameters in the function, got both")
        return game
    make: Any = arena_envs.make if isinstance(game, str) else GameEnv
    prompt = {"penalty": 0.0, **(prompt or {})}
    return lambda: PromptWrapper(make(game, observation="text", **params), **prompt)


def _checked_save(
    saved: Mapping[str, Any],
) -> tuple[int, int, list[int], list[Reply], dict[str, Any]]:
    """Seed, sample, seats, replies and options of a save, which may come from anybody."""
    try:
        seed = checked_seed(saved["seed"])
        options = {"sample": saved.get("sample", 0)}
        sample = checked_sample(options, seed)
        if "chance" in saved:
            options["chance"] = saved["chance"]
        replies = []
        for entry in saved["replies"]:
            text, flag = (entry, None) if isinstance(entry, str) else entry
            if not isinstance(text, str) or flag not in (None, "overlong", *INSTEAD):
                raise TypeError(flag)
            is_cut = flag == "overlong"
            reply = Reply(text, truncated=is_cut, instead=None if is_cut else flag)
            replies.append(reply)
        return seed, sample, list(saved["seats"]), replies, options
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"want what SeatSession.save returned, got {short(saved)}"
        ) from error
