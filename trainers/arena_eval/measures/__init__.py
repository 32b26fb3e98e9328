"""Measures of how a policy plays, from recorded episodes; probes of what it believes.

A measure is a function of episodes, the game and a seat:

    Measure(episodes, game, seat) -> {name: Estimate(value, low, high, num)}

| Measure | What it tells of a seat's turns |
|---|---|
| `choice_bias` | by position in the list of legal actions, how much more often it is chosen than by uniform random play |
| `action_entropy` | entropy of the action given the information set, in nats |
| `serial_dependence` | how much more often a choice repeats the seat's last one than by independence |
| `mutual_information` | between reply and information set, in nats; 0 if the policy ignores its prompt (collapse) |
| `regret` | loss of expected return by a turn's action, against an exact reference |
| `profile_accuracy` | share of turns whose action is best against that reference |
| `cost` | tokens, or characters, of replies and prompts in an episode |
| `belief` | a probe: what the policy believes of a hidden fact, against the posterior |
| `profile` | a probe: the ranks that the policy gives to another seat's priorities, against the true ones |

`belief_gain` and `partner_gain`, parts of the reward, are here because they enumerate a game, too.

A `Probe` also asks the policy a question beside each turn. The answers stand in `Turn.probes`.

`episodes` are complete (`without_lost`). Without episodes a measure gives nothing, or a ValueError
if it does not suit the game. Other distributions name theirs in the entry-point group
`arena.measures`; `check_measure` names the first promise that one breaks.

An information set is known exactly here: `Game.information_state`. An interval is that of
`mean_interval` over the jackknife's pseudo-values, an episode being one observation (Tukey 1958).
"""
