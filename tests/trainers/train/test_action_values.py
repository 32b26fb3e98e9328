"""Action values of fitted critics: mean 0 under the policy, whatever the critic says."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import arena_envs  # noqa: E402
from arena_credit import TurnBatch  # noqa: E402
from arena_trainers import TurnGRPOConfig  # noqa: E402
from arena_trainers.train import FeatureCritic, check_credit  # noqa: E402
from arena_trainers.train.critics.exact_check import check_reply_probs  # noqa: E402
from arena_trainers.train.critics.replies import above_mean  # noqa: E402
from arena_trainers.train.games import GamePlan  # noqa: E402
from arena_trainers.train.records import TurnRecord  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
CREDIT = {"credit": "control_variates", "credit_args": {"action_values": True}}
WIDTH = {"critic_args": {"hidden_size": 8}}


def randomise(networks):
    """Weights with which no action is worth as much as another."""
    torch.manual_seed(0)
    for weights in networks.parameters():
        torch.nn.init.normal_(weights)


def turn_of(trainer, record):
    return trainer.last_episodes[record.episode].turns[record.place]


def replies(trainer, turn):
    """The token ids of each canonical reply, with its end token."""
    tokenizer = trainer.processing_class
    texts = [tokenizer(text, add_special_tokens=False).input_ids for text in turn.legal]
    return [[*ids, trainer.policy.eos_ids[0]] for ids in texts]


def logprob(trainer, prompt, reply):
    """By a forward pass of the row alone."""
    ids = torch.tensor([[*prompt, *reply]])
    with torch.no_grad():
        logits = trainer.model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    logps = logits.log_softmax(-1).gather(1, torch.tensor(reply)[:, None])
    return logps.sum().item()


def before_end(model, network, prompt, reply):
    """The value that the network gives to what the model read before the end token."""
    with torch.no_grad():
        output = model(
            input_ids=torch.tensor([[*prompt, *reply]]), output_hidden_states=True
        )
        return network(output.hidden_states[-1][0, -2]).item()


@pytest.mark.parametrize("critic", ["features", "tokens"])
def test_what_a_reply_is_worth_above_the_mean_has_mean_0(
    make_trainer, generated, critic
):
    """Q by hand of all canonical replies, and probabilities of the rows alone."""
    trainer = make_trainer(**CREDIT, critic=critic, **WIDTH)
    by_tokens = critic == "tokens"
    part = trainer.credit.critic
    randomise(part.network if by_tokens else part.action_networks)
    network = copy.deepcopy(part.network if by_tokens else part.action_networks[0])
    generated(trainer)
    turns, canonical = trainer.last_turns, 0
    for n, record in enumerate(trainer.last_selected.records):
        turn = turn_of(trainer, record)
        rows = replies(trainer, turn)
        probs = np.exp([logprob(trainer, turn.prompt_ids, row) for row in rows])
        assert record.reply_probs == pytest.approx(probs, rel=1e-4)
        if by_tokens:
            values = [
                before_end(trainer.model, network, turn.prompt_ids, row) for row in rows
            ]
        else:
            x = torch.tensor([*record.features, *np.eye(2)[record.seat]])
            values = network(x.double())[list(record.legal)].tolist()
        above = np.array(values) - probs @ values / probs.sum()
        assert probs @ above == pytest.approx(0, abs=1e-9)
        place = rows.index(list(turn.token_ids)) if list(turn.token_ids) in rows else -1
        wanted = above[place] if place >= 0 else 0.0
        assert turns.action_value[n] - turns.value[n] == pytest.approx(wanted, abs=1e-4)
        canonical += place >= 0
    assert canonical > 0
    assert np.abs(turns.action_value - turns.value).max() > 0.01


def test_fitted_action_values_of_random_play_come_near_the_exact_ones():
    """One draw of matching: an action pays its number, 0 to 2, and 10 times the features' last."""
    game = arena_envs.make_game("kuhn_poker")
    critic = FeatureCritic(
        [game], scores_replies=True, learning_rate=1e-2, num_steps=300
    )
    size = len(game.features(game.initial_state(), 0))
    rng = np.random.default_rng(0)
    records, rewards = [], []
    for n in range(200):
        features, action = (
            rng.integers(2, size=size).astype(np.float32),
            int(rng.integers(2)),
        )
        record = TurnRecord(0, n, n, 0, 0, 0, {}, 1, 1, True, False, features=features)
        record = record._replace(
            action=action, legal=(0, 1), reply_probs=(0.25, 0.75), reply_index=action
        )
        records.append(record)
        rewards.append(10 * features[-1] + (2 * features[0] - 1) * action)
    zeros = np.zeros(200, int)
    batch = TurnBatch(rewards, zeros, range(200), zeros, zeros, zeros)
    first = critic.with_values(batch, records)
    np.testing.assert_array_equal(first.action_value, first.value)  # nothing is known
    critic.fit(first, records)
    above = critic.with_values(batch, records)
    signs = np.array([2 * r.features[0] - 1 for r in records])
    wanted = signs * (np.array([r.action for r in records]) - 0.75)
    np.testing.assert_allclose(above.action_value - above.value, wanted, atol=0.25)
    again = FeatureCritic([game], scores_replies=True, seed=5)
    again.load_state_dict(critic.state_dict())
    loaded = again.with_values(batch, records).action_value
    np.testing.assert_array_equal(loaded, above.action_value)


def test_a_reply_that_is_not_canonical_is_worth_the_mean():
    record = TurnRecord(0, 0, 0, 0, 0, 0, {}, 1, 1, True, False, reply_probs=(0.2, 0.1))
    assert above_mean([1.0, 7.0], record) == 0.0
    assert above_mean([1.0, 7.0], record._replace(reply_index=1)) == 4.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 5}, "takes top_k 0, got 5"),
        ({"games": ["negotiation"]}, "can be listed, got 'negotiation'"),
    ],
)
def test_what_has_no_probabilities_of_all_replies_is_refused(
    settings, options, message
):
    args = TurnGRPOConfig(**{**settings, **CREDIT, "critic": "features", **options})
    with pytest.raises(ValueError, match=message):
        check_reply_probs(args, [GamePlan(spec, args) for spec in args.games])


def test_another_policy_than_that_which_played_is_refused(settings):
    options = {**CREDIT, "critic": "features", "asynchronous": {"max_staleness": 1}}
    args = TurnGRPOConfig(**{**settings, **options})
    with pytest.raises(
        ValueError, match="asynchronous does not support critic 'features'"
    ):
        check_credit(args)
