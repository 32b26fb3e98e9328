"""Values of tokens: what they are, what they learn, and what they leave alone; the registry of critics."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from arena_credit import TurnBatch, estimate  # noqa: E402
from arena_envs.registry import BrokenPromise  # noqa: E402
from arena_trainers import TurnGRPOConfig  # noqa: E402
from arena_trainers.train import (  # noqa: E402
    ExactCritic,
    FeatureCritic,
    check_credit,
    check_critic,
    turn_records,
)
from arena_trainers.train.critics.registry import CriticFacts, critic_facts, critics  # noqa: E402
from arena_wrappers import messages  # noqa: E402
from arena_wrappers.play import final_state  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
POAD = {"credit": "poad", "critic": "tokens"}
FAST = {"critic_args": {"hidden_size": 8, "learning_rate": 0.01}}
WHOLE = {"discount": 1.0, "lambda_": 1.0, "lambda_tokens": 1.0}


def set_head(trainer):
    """Gives the network's last layer weights, so that values are not 0."""
    torch.manual_seed(0)
    for weights in trainer.credit.critic.network[-1].parameters():
        torch.nn.init.normal_(weights)


def plain_values(trainer, prompt, reply):
    """Before each token, by a forward pass of the row alone."""
    ids = torch.tensor([[*prompt, *reply]])
    states = trainer.model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
    network = trainer.credit.critic.network
    return network(states[0, len(prompt) - 1 : -1])[:, 0]


def test_values_are_those_of_the_state_before_each_token(make_trainer, generated):
    trainer = make_trainer(**POAD, **FAST)
    set_head(trainer)
    generated(trainer)
    turns, own = trainer.last_turns, []
    for record in trainer.last_selected.records:
        turn = trainer.last_episodes[record.episode].turns[record.place]
        with torch.no_grad():
            own.append(plain_values(trainer, turn.prompt_ids, turn.token_ids).numpy())
    assert turns.tokens["value"] == pytest.approx(np.concatenate(own), abs=1e-5)
    assert turns.value == pytest.approx([values[0] for values in own], abs=1e-5)
    assert turns.tokens["value"].std() > 0.01


@pytest.mark.parametrize("credit", ["poad", "bi_level_gae"])
def test_the_advantages_trained_are_those_of_the_estimator(
    make_trainer, generated, credit
):
    """On a batch that holds the same values as a column."""
    trainer = make_trainer(credit=credit, critic="tokens", **FAST)
    set_head(trainer)
    inputs = generated(trainer)
    turns = trainer.last_turns
    names = ("game", "episode", "seat", "turn", "group", "truncated", "num_tokens")
    own = {name: getattr(turns, name) for name in names}
    values = {"value": turns.tokens["value"]}
    wanted = estimate(credit, TurnBatch(turns.reward, tokens=values, **own)).advantage
    mask = inputs["tool_mask"].bool()
    assert inputs["advantages"][mask].numpy() == pytest.approx(wanted, abs=1e-6)
    assert abs(wanted).max() > 0.1


@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_is_that_of_autograd_by_hand_on_three_tokens(make_trainer, shared):
    """PPO's clipped surrogate, averaged over tokens, and half of the clipped loss of values."""
    options = {"hidden_size": 8, "shared": shared, "clip": 0.2, "loss_weight": 0.5}
    trainer = make_trainer(**POAD, critic_args=options)
    set_head(trainer)
    trainer.current_gradient_accumulation_steps = 1
    prompt, reply = [5, 6, 7, 8], [9, 10, 11]
    advantages, targets = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.3, -1, 2])
    ids = torch.tensor([[*prompt, *reply]])
    logps = trainer.model(input_ids=ids).logits[0, 3:-1].log_softmax(-1)
    logps = logps.gather(1, torch.tensor(reply)[:, None])[:, 0]
    values = plain_values(trainer, prompt, reply)
    if not shared:
        frozen = [p.requires_grad_(False) for p in trainer.model.parameters()]
        values = plain_values(trainer, prompt, reply)
        for p in frozen:
            p.requires_grad_(True)
    old = logps.detach() + torch.tensor([0.0, 0.1, -0.5])
    before = values.detach() + torch.tensor([0.0, 0.5, -0.1])
    ratio = (logps - old).exp()
    policy = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    near = before + (values - before).clamp(-0.2, 0.2)
    error = torch.max((values - targets) ** 2, (near - targets) ** 2)
    network = [*trainer.credit.critic.network.parameters()]
    weights = [*trainer.model.parameters(), *network]
    wanted = torch.autograd.grad(policy.mean() + 0.5 * (error / 2).mean(), weights)
    inputs = {
        "prompt_ids": torch.tensor([prompt]),
        "prompt_mask": torch.ones(1, 4, dtype=torch.long),
        "completion_ids": torch.tensor([reply]),
        "completion_mask": torch.ones(1, 3, dtype=torch.long),
        "advantages": advantages[None],
        "old_per_token_logps": old[None],
        "sampling_per_token_logps": old[None],
        "arena_token_values": before[None],
        "arena_targets": targets[None],
        "num_items_in_batch": torch.tensor(3.0),
        "learner": torch.zeros(1, dtype=torch.long),
    }
    trainer._compute_loss(trainer.model, inputs).backward()
    for weight, own in zip(weights, wanted, strict=True):
        torch.testing.assert_close(weight.grad, own, atol=1e-6, rtol=1e-4)
    assert network[0].grad.any()


@pytest.mark.slow
def test_the_gradient_is_the_same_in_chunks(make_trainer, generated, monkeypatch):
    """Also where activations are computed again."""
    found = []
    for most in (None, 24):
        trainer = make_trainer(**POAD, **FAST, max_tokens_per_forward=most)
        set_head(trainer)
        monkeypatch.setattr(trainer.forward.kept, "fits", lambda *_: False)
        inputs = generated(trainer)
        trainer.current_gradient_accumulation_steps = 1
        trainer._compute_loss(trainer.model, inputs).backward()
        network = trainer.credit.critic.network
        found.append([p.grad for p in network.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def weights_of(trainer):
    return [weights.clone() for weights in trainer.model.state_dict().values()]


@pytest.mark.slow
def test_without_weight_the_run_is_that_of_a_baseline_of_zero_bit_by_bit(make_trainer):
    options = {"max_steps": 3, "num_iterations": 2, "gradient_accumulation_steps": 1}
    args = {"critic_args": {"loss_weight": 0.0}, "credit_args": WHOLE}
    column, whole = {"value": lambda *_: 0.0}, {"discount": 1.0, "lambda_": 1.0}
    one = make_trainer(**POAD, **args, **options)
    before = weights_of(one)
    one.train()  # before the other is made, which sets the seed of the shuffle
    other = make_trainer(column, credit="gae", credit_args=whole, **options)
    other.train()
    assert not all(map(torch.equal, before, weights_of(one)))
    assert all(map(torch.equal, weights_of(other), weights_of(one)))


@pytest.mark.slow
def test_a_resumed_run_has_the_values_bit_by_bit(whole_and_resumed):
    options: dict[str, Any] = {**POAD, **FAST}
    options |= {"logging_steps": 1}
    whole, resumed = whole_and_resumed(**options)
    for a, b in zip(weights_of(whole), weights_of(resumed), strict=True):
        assert torch.equal(a, b)
    values = [t.last_turns.tokens["value"] for t in (whole, resumed)]
    assert values[0].any()
    np.testing.assert_array_equal(*values)
    assert whole.state.log_history[0]["arena/critic_error"] > 0


def test_the_network_is_a_group_with_a_learning_rate_of_its_own(make_trainer):
    trainer = make_trainer(**POAD, **FAST, lr_scheduler_type="constant")
    before = [p.clone() for p in trainer.credit.critic.network.parameters()]
    trainer.train()
    *_, own = trainer.optimizer.param_groups
    network = [*trainer.credit.critic.network.parameters()]
    assert own["params"] == network
    assert (own["lr"], own["weight_decay"]) == (0.01, 0.0)
    assert not torch.equal(network[-1], before[-1])
    assert all(p.grad is None or not p.grad.any() for p in network)


def test_a_truncated_turn_has_the_value_of_the_next_prompt(make_trainer, generated):
    games = [{"id": "kuhn_poker", "max_turns": 1}]
    trainer = make_trainer(**POAD, **FAST, games=games)
    set_head(trainer)
    generated(trainer)
    turns, record = trainer.last_turns, trainer.last_selected.records[0]
    assert turns.truncated.all()
    game = trainer.games.rules[0]
    state = final_state(trainer.last_episodes[record.episode], game)
    told = messages(game, state, record.seat, trainer.args.prompt)
    prompt = trainer.policy.encode(told)
    with torch.no_grad():
        wanted = plain_values(trainer, prompt, [0])[0]
    assert turns.next_value[0] == pytest.approx(float(wanted), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "advantage", "wanted"),
    [
        (POAD, [1.0, 2.0, 3.0], [1.5, 2.7, 3.1]),  # by token
        ({**POAD, "credit": "gae"}, [1.0, 3.0], [1.5, 1.5, 3.1]),  # by turn
        ({"critic": "tokens", "within_turn": "values"}, [2.0, 0.5, 3.0], [2, 2, 3]),
    ],
)
def test_targets_are_returns_as_the_estimator_sees_them(
    make_trainer, options, advantage, wanted
):
    """Two turns, of two tokens and of one, with values .5, .7 and .1."""
    one = {"game": [0, 0], "seat": [0, 0], "group": [0, 0], "episode": [0, 0]}
    value = {"value": [0.5, 0.1], "tokens": {"value": [0.5, 0.7, 0.1]}}
    turns = TurnBatch([0, 1], turn=[0, 1], num_tokens=[2, 1], **one, **value)
    critic = make_trainer(**options).credit.critic
    assert critic.targets(turns, np.array(advantage)) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"layout": "trajectory", "history": "transcript"},
            "'tokens' does not support layout 'trajectory'",
        ),
        ({"critic_args": {"clp": 1}}, "critic 'tokens' has no option 'clp'; did you"),
        ({"critic": "tokens(clp=1)"}, "critic 'tokens' has no option 'clp'; did you"),
        ({"critic": "tokens:1"}, "want a critic as module:name, got 'tokens:1'"),
        ({"critic": "tokens(clip=-1)"}, "want a number clip of at least 0, got -1"),
        ({"critic_args": {"clip": True}}, "want a number clip of at least 0, got True"),
        ({"critic_args": {"shared": 3}}, "want shared True or False, got 3"),
        ({"critic": "token"}, "no critic 'token'; did you mean 'tokens'"),
        ({"critic": "nowhere:Critic"}, "nor is there a module 'nowhere'"),
        ({"credit": "mars"}, "credit 'mars' reads no values of critic='tokens'"),
        ({"critic": "utterances"}, r"'tokens.value', which .*: set critic='tokens'$"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, overrides, message):
    with pytest.raises(ValueError, match=message):
        check_credit(TurnGRPOConfig(**{**settings, **POAD, **overrides}))


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 0), ("clip", -1)])
def test_options_out_of_range_are_refused(make_trainer, name, value):
    with pytest.raises(ValueError, match=f"{name}.* got {value}"):
        make_trainer(**POAD, critic_args={name: value})


def test_truncation_with_transcripts_is_refused(make_trainer, generated):
    games = [{"id": "kuhn_poker", "max_turns": 1}]
    trainer = make_trainer(**POAD, games=games, history="transcript")
    with pytest.raises(ValueError, match=r"history='state'.* got 'transcript'"):
        generated(trainer)


class Constant:
    """The same value for every turn; a test names it as a plug-in."""

    def __init__(self, games, *, level=0.5):
        self.games, self.level = games, level

    def with_values(self, batch, records):
        level = np.full(len(records), self.level)
        return replace(batch, value=level, next_value=level)

    def after(self, batch, records, trains):
        return {"mine/level": self.level}

    def state_dict(self):
        return None

    def load_state_dict(self, state):
        raise AssertionError("nothing is learned")


def test_a_critic_of_another_package_trains_by_its_name(make_trainer, monkeypatch):
    monkeypatch.setitem(critics.built_in, "constant", Constant)
    options = {"credit": "gae", "logging_steps": 1, "critic_args": {"level": 2.0}}
    trainer = make_trainer(critic="constant", **options)
    trainer.train()
    assert trainer.last_turns.value.tolist() == [2.0] * len(trainer.last_turns.value)
    assert trainer.state.log_history[0]["mine/level"] == 2.0
    with pytest.raises(ValueError, match="critic 'constant' has no option 'lvl'"):
        make_trainer(critic="constant", credit="gae", critic_args={"lvl": 2.0})


class Sees(Constant):
    def with_values(self, batch, records):
        return replace(batch, value=batch.reward, next_value=batch.reward)


class Silent(Constant):
    supplies = ("value", "action_value")


class Forgetful(Constant):
    """It learns, and forgets what it saved."""

    def after(self, batch, records, trains):
        self.level += 1.0
        return {}

    def state_dict(self):
        return {"level": self.level}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize(
    ("critic", "promise"),
    [(Sees, "unbiased"), (Silent, "columns"), (Forgetful, "state")],
)
def test_the_check_names_the_promise_that_a_critic_breaks(critic, promise):
    with pytest.raises(BrokenPromise, match=promise):
        check_critic(critic)


def test_the_check_passes_good_critics():
    check_critic(Constant, level=1.0)
    check_critic(FeatureCritic, num_steps=2)


@pytest.mark.parametrize("name", critics.built_in)
def test_what_is_read_in_the_file_of_a_critic_is_what_its_class_declares(name):
    import inspect

    critic, facts = critics.find(name), critic_facts(name)
    parameters = inspect.signature(critic).parameters
    for field in ("supplies", "reads", "limits", "one_process"):
        default = getattr(CriticFacts(), field)
        assert getattr(critic, field, default) == getattr(facts, field)
    options = {*parameters} - {*critics.reserved}
    assert {name: parameters[name].default for name in options} == facts.defaults


@pytest.mark.slow
def test_values_of_tokens_learn_those_of_kuhn_poker(make_trainer, generated):
    """Before the first token V(I), before the end of a legal reply Q(I, a), of the last policy."""
    args = {
        "hidden_size": 64,
        "learning_rate": 5e-3,
        "loss_weight": 2.0,
        "shared": True,
    }
    updates = {"num_iterations": 4, "gradient_accumulation_steps": 1, "max_steps": 200}
    options = {"critic_args": args, "credit_args": WHOLE, "learning_rate": 3e-3}
    trainer = make_trainer(**POAD, **options, **updates, episodes_per_step=64)
    trainer.train()
    generated(trainer)
    turns, episodes = trainer.last_turns, trainer.last_episodes
    games, many = trainer.games.rules, len(episodes)
    given = [0] * many, [["self"] * 2] * many, games, ["state_key"]
    records = turn_records(episodes, *given)
    critic = ExactCritic(games, [[trainer.policy] * 2], trainer.args.prompt)
    exact = critic.with_values(turns, records)
    assert critic.illegal_mass < 0.1
    ends = np.cumsum(turns.num_tokens) - 1
    legal = np.array([not record.is_invalid for record in records])
    tokens = turns.tokens["value"][ends]
    for found, wanted in (
        (turns.value, exact.value),
        (tokens[legal], exact.action_value[legal]),
    ):
        assert np.std(wanted) > 1
        assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.2


@pytest.mark.slow
def test_values_of_tokens_learn_with_an_adapter_and_several_updates(make_trainer):
    from peft import LoraConfig

    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    updates = {"num_iterations": 2, "gradient_accumulation_steps": 1, "max_steps": 4}
    args = {"hidden_size": 8, "shared": True, "clip": 0.2}
    trainer = make_trainer(
        peft_config=config, **POAD, critic_args=args, **updates, logging_steps=1
    )
    trainer.train()
    errors = [e for e in trainer.state.log_history if "arena/critic_error" in e]
    assert len(errors) == 2  # batches
    assert trainer.last_turns.tokens["value"].any()
    assert re.search("lora", " ".join(trainer.model.state_dict()))
