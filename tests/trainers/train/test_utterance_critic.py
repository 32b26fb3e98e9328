"""The critic of utterances: what it reads, one step by hand, its replay buffer, and what it learns."""

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from arena_trainers import TurnGRPOConfig  # noqa: E402
from arena_trainers.train import check_credit  # noqa: E402
from arena_wrappers import messages  # noqa: E402
from arena_wrappers.play import final_state  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
ARCHER = {"credit": "archer", "critic": "utterances"}
ARCHER |= {"credit_args": {"action_value": "column", "discount": 0.9}}
FAST = {"hidden_size": 8, "num_steps": 1, "batch_size": 32, "learning_rate": 0.01}


def state_of(trainer, ids):
    """The last hidden state of the model that the critic keeps."""
    model = trainer.credit.critic.encoder
    ids = torch.tensor([ids])
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state[0, -1]


def turns_of(trainer):
    records = trainer.last_selected.records
    return [trainer.last_episodes[r.episode].turns[r.place] for r in records]


def test_a_turn_is_read_before_and_after_its_reply(make_trainer, generated):
    trainer = make_trainer(**ARCHER, critic_args=FAST)
    generated(trainer)
    critic, turns = trainer.credit.critic, turns_of(trainer)
    states, pairs, after, reward, factor = critic.seen
    assert reward.tolist() == trainer.last_turns.reward.tolist()
    keys = [(r.episode, r.seat, r.turn) for r in trainer.last_selected.records]
    for n, ((episode, seat, turn), played) in enumerate(zip(keys, turns, strict=True)):
        before = state_of(trainer, played.prompt_ids)
        whole = state_of(trainer, [*played.prompt_ids, *played.token_ids])
        torch.testing.assert_close(states[n], before, atol=1e-5, rtol=0)
        torch.testing.assert_close(pairs[n], whole, atol=1e-5, rtol=0)
        later = (episode, seat, turn + 1)
        goes_on = later in keys
        assert factor[n] == pytest.approx(0.9 * goes_on)
        if goes_on:
            assert torch.equal(after[n], states[keys.index(later)])
    assert 0 < factor.count_nonzero() < len(factor)


def test_a_truncated_turn_is_followed_by_the_prompt_at_the_end(make_trainer, generated):
    games = [{"id": "kuhn_poker", "max_turns": 1}]
    trainer = make_trainer(**ARCHER, critic_args=FAST, games=games)
    generated(trainer)
    *_, after, _, factor = trainer.credit.critic.seen
    assert factor.tolist() == pytest.approx([0.9] * len(factor))
    for n, record in enumerate(trainer.last_selected.records[:3]):
        game = trainer.games.rules[0]
        state = final_state(trainer.last_episodes[record.episode], game)
        told = messages(game, state, record.seat, trainer.args.prompt)
        wanted = state_of(trainer, trainer.policy.encode(told))
        torch.testing.assert_close(after[n], wanted, atol=1e-5, rtol=0)
    assert np.isfinite(trainer.last_turns.next_value).all()


def test_a_step_is_that_of_autograd_by_hand(make_trainer, generated):
    """Q to r + γ V', V to Q', each network to its own target; then the targets follow."""
    trainer = make_trainer(**ARCHER, critic_args=FAST)
    critic = trainer.credit.critic
    for weights in (*critic.networks.parameters(), *critic.targets.parameters()):
        torch.nn.init.normal_(weights.data, std=0.3)
    networks, targets = copy.deepcopy(critic.networks), copy.deepcopy(critic.targets)
    generated(trainer)
    rng = torch.Generator().manual_seed(trainer.args.seed)
    drawn = torch.randint(len(critic.seen[0]), (32,), generator=rng)
    s, u, after, reward, factor = (x[drawn] for x in critic.seen)
    loss = torch.tensor(0.0)
    for q, v in ((0, 2), (1, 3)):
        with torch.no_grad():
            to = reward + factor * targets[v](after)[:, 0]
            pair = targets[q](u)[:, 0]
        loss = loss + ((networks[q](u)[:, 0] - to) ** 2).mean()
        loss = loss + ((networks[v](s)[:, 0] - pair) ** 2).mean()
    optimizer = torch.optim.Adam(networks.parameters(), 0.01)
    loss.backward()
    optimizer.step()
    found = critic.networks.parameters(), critic.targets.parameters()
    wanted = networks.parameters(), targets.parameters()
    for own, target, one, other in zip(*found, *wanted, strict=True):
        torch.testing.assert_close(own, one, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(target, 0.9 * other + 0.1 * one, atol=1e-6, rtol=0)


def test_the_advantage_is_the_smaller_q_less_the_smaller_v(make_trainer, generated):
    trainer = make_trainer(**ARCHER, critic_args=FAST)
    critic = trainer.credit.critic
    for weights in critic.networks.parameters():
        torch.nn.init.normal_(weights.data, std=0.3)
    networks = copy.deepcopy(critic.networks)
    generated(trainer)
    s, u = critic.seen[:2]
    with torch.no_grad():
        q1, q2, v1, v2 = (
            network(x)[:, 0] for network, x in zip(networks, (u, u, s, s), strict=True)
        )
    wanted = torch.minimum(q1, q2) - torch.minimum(v1, v2)
    found = trainer.last_credit.advantage
    assert found == pytest.approx(wanted.double().numpy(), abs=1e-6)
    assert np.abs(found).max() > 0.01


def test_turns_of_earlier_batches_are_replayed_and_the_oldest_go(
    make_trainer, generated
):
    trainer = make_trainer(**ARCHER, critic_args={**FAST, "replay": 30})
    generated(trainer)
    first = trainer.credit.critic.seen[0]
    assert len(first) < 30
    generated(trainer)
    second, num = trainer.credit.critic.seen[0], len(trainer.last_selected.records)
    assert len(second) == 30
    assert torch.equal(second[: 30 - num], first[num - 30 :])


def test_evaluation_teaches_the_critic_nothing(make_trainer):
    trainer = make_trainer(**ARCHER, critic_args=FAST, num_generations_eval=1)
    trainer.model.eval()
    trainer._generate_and_score_completions([trainer.train_dataset[0]])
    assert trainer.credit.critic.seen == []


@pytest.mark.slow
def test_a_resumed_run_goes_on_bit_by_bit(whole_and_resumed):
    options: dict[str, Any] = {**ARCHER, "critic_args": FAST}
    whole, resumed = whole_and_resumed(**options)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    pairs = zip(whole.credit.critic.seen, resumed.credit.critic.seen, strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    values = [t.last_turns.action_value for t in (whole, resumed)]
    assert values[0].any()
    np.testing.assert_array_equal(*values)


def test_a_new_critic_is_no_reason_to_warn(make_trainer, generated, recwarn):
    generated(make_trainer(**ARCHER, critic_args=FAST))
    assert "all advantages" not in " ".join(str(w.message) for w in recwarn)


@pytest.mark.parametrize(("name", "value"), [("replay", 0), ("polyak", 1.5)])
def test_options_out_of_range_are_refused(make_trainer, name, value):
    with pytest.raises(ValueError, match=f"{name}.* got {value}"):
        make_trainer(**ARCHER, critic_args={name: value})


def test_credit_of_action_values_is_refused_without_a_critic(settings):
    given = {**settings, **ARCHER, "critic": None, "critic_args": {}}
    with pytest.raises(ValueError, match=r"'action_value', .* or 'utterances'"):
        check_credit(TurnGRPOConfig(**given))


def test_several_processes_are_refused(settings, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="'utterances' does not support several proc"):
        check_credit(TurnGRPOConfig(**settings, **ARCHER))


@pytest.mark.slow
def test_v_of_the_first_prompt_is_the_mean_return(make_trainer):
    """Of twenty questions with two things, whose first prompt is always the same; the policy rests."""
    params = {"num_things": 2, "num_questions": 1, "max_questions": 2}
    options: dict[str, Any] = {**ARCHER, "learning_rate": 0.0, "max_steps": 40}
    options |= {"credit_args": {"action_value": "column", "discount": 1.0}}
    args = {"hidden_size": 32, "num_steps": 20, "learning_rate": 3e-3}
    games = [{"id": "twenty_questions", "params": params}]
    trainer = make_trainer(**options, critic_args=args, games=games)
    trainer.train()
    turns, critic = trainer.last_turns, trainer.credit.critic
    first = [i for i, turn in enumerate(turns.turn) if turn == 0]
    rate = len(first) / len(turns.turn)  # episodes per turn
    returns = float(critic.seen[3].mean()) / rate
    assert abs(returns) > 0.2
    assert turns.value[first] == pytest.approx(returns, abs=0.05)
