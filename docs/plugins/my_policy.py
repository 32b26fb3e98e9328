"""A policy.

- **Protocol**: a function of a `TurnRequest` that returns the text of a reply, or
  `arena_wrappers.Policy`: `act(requests)` returns one `Reply` each, in order. All randomness
  comes from `request.seed`. Optional: `prompt` (`PromptOptions`), `action_probs` (makes
  exploitability exact), `act_async`.
- **Name**: `play` takes the object itself; `my_policy:FirstLegal` names it everywhere. A
  function whose only parameter is `request` plays itself; others make a policy, called with the
  argument and options of `first_legal:ARGUMENT(key=value)`. The group is `arena.policies`.
- **Bots** read states instead of text: a function of game, state and generator;
  `BotPolicy(bot)` is its policy.
"""

from arena_wrappers import Reply, play


class FirstLegal:
    """Always replies with the first legal action."""

    def act(self, requests):
        return [Reply(request.wrap(request.legal[0])) for request in requests]


def test_every_reply_is_a_legal_action():
    policies = [FirstLegal(), "random"]
    episodes = play("kuhn_poker", policies, range(20))
    turns = [turn for episode in episodes for turn in episode.turns]
    assert all(turn.invalid is None for turn in turns)
