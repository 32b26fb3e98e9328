"""Several learners, adapters or whole models: who is trained, by which rows, with which numbers."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from arena_envs import make_game
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.lm import LMPolicy
from arena_trainers.train import TrainingRow, whole_learners
from arena_trainers.train.learners import earlier_gaps
from arena_trainers.train.score import forward
from arena_trainers.train.together import check_together
from arena_wrappers import AgentPolicy, Ask, PromptOptions, Reply, TurnRequest

KUHN, SHORT = make_game("kuhn_poker"), PromptOptions("bare", rules=False)
TWO = {"planner": {"lora_r": 2}, "worker": {"lora_r": 2}}
WHOLE = {"planner": {}, "worker": {}}
LORA = {"r": 2, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
SEATS = {0: {"lora_r": 2}, 1: {"lora_r": 2}}


def alone(seen):
    said = yield Ask("me", seen.messages)
    return Reply(said.text)


@pytest.fixture
def make(model_folder, settings):
    """A trainer with learners; options override the settings."""

    def make(roles, agent="planner_worker", peft=None, **options):
        args = {**settings, "roles": roles, **options}
        if isinstance(agent, str):
            args["agent"] = agent
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        return TurnGRPOTrainer(
            str(model_folder),
            TurnGRPOConfig(**args),
            processing_class=tokenizer,
            agent=agent if callable(agent) else None,
            peft_config=peft,
        )

    return make


def weights_of(trainer, name):
    if models := getattr(trainer.learners, "models", None):
        named = models[trainer.learners.names.index(name)].named_parameters()
        return {n: p.detach().clone() for n, p in named if "learners." not in n}
    named = trainer.accelerator.unwrap_model(trainer.model).named_parameters()
    own = {n: p.detach().clone() for n, p in named if f".{name}." in n}
    return {n.replace(f".{name}.", "."): p for n, p in own.items()}


def same(one, other):
    assert one.keys() == other.keys()
    return bool(one) and all(torch.equal(one[n], other[n]) for n in one)


@pytest.mark.slow
def test_one_learner_trains_as_a_run_with_one_adapter(make):
    peft = LoraConfig(**LORA, lora_alpha=4)
    agent = lambda model: AgentPolicy(alone, model)  # noqa: E731
    plain = make({}, agent, peft, max_steps=2, beta=0.1)
    own = make({"me": {"lora_r": 2}}, agent, max_steps=2, beta=0.1)
    plain.train(), own.train()
    mine = weights_of(own, "me")
    for name, weights in weights_of(plain, "default").items():
        torch.testing.assert_close(mine[name], weights, atol=1e-6, rtol=0)


def test_each_row_trains_the_adapter_of_its_role(make, generated):
    """Gradients are those of -A log p over all tokens, by hand, one row at a time.

    Layers that run again in the backward pass run with the adapter of their row.
    """
    trainer = make(TWO, loss_type="dapo", gradient_checkpointing=True)
    layers = trainer.accelerator.unwrap_model(trainer.model)
    layers.gradient_checkpointing_enable({"use_reentrant": False})  # as in a run
    batch = generated(trainer)
    real = [row for row in trainer._rows if row.advantage is not None]
    assert {row.role for row in real} == {"planner", "worker"}
    num = int(batch["num_items_in_batch"])
    trainer.current_gradient_accumulation_steps = 1
    trainer._compute_loss(trainer.model, batch).backward()
    model, learners = trainer.accelerator.unwrap_model(trainer.model), trainer.learners
    found = [[p.grad for p in own] for own in learners.weights]
    model.zero_grad()
    for row in real:
        learners.use(row.learner)
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        size = len(row.completion_ids)
        logits = model(input_ids=ids).logits[0, -size - 1 : -1] / trainer.temperature
        own = logits.log_softmax(-1).gather(1, ids[0, -size:, None])[:, 0]
        (-(torch.tensor(row.advantage).float() * own).sum() / num).backward()
    for grads, own in zip(found, learners.weights, strict=True):
        assert any(p.grad is not None and p.grad.any() for p in own)
        for grad, p in zip(grads, own, strict=True):
            torch.testing.assert_close(grad, p.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.slow
def test_small_chunks_have_the_gradient_of_one(make, generated, monkeypatch):
    """Chunks that run again in the backward pass run with their own adapter."""
    trainer = make(TWO)
    batch = generated(trainer)
    trainer.current_gradient_accumulation_steps = 1
    found = []
    for most, free in ((trainer.forward.max_tokens, 0), (40, 0), (40, 2**40)):
        monkeypatch.setattr(forward, "free_memory", lambda device, free=free: free)
        trainer.forward.max_tokens = most
        trainer.model.zero_grad()
        trainer._compute_loss(trainer.model, batch).backward()
        found.append([p.grad for own in trainer.learners.weights for p in own])
    for one, *others in zip(*found, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def no_credit_for(role):
    """Rows of a role have advantage 0 from the second step on."""

    class Trainer(TurnGRPOTrainer):
        def _training_rows(self, advantage):
            rows = super()._training_rows(advantage)
            for row in rows:
                is_late = self.state.global_step > 0
                if row.role == role and row.advantage is not None and is_late:
                    row.advantage = 0 * row.advantage
            return rows

    return Trainer


@pytest.mark.slow
@pytest.mark.parametrize(
    "roles", [TWO, pytest.param(WHOLE, marks=pytest.mark.slow)], ids=["lora", "whole"]
)
def test_a_learner_without_advantage_keeps_its_weights(make, monkeypatch, roles):
    """Neither momentum nor weight decay of earlier steps moves it."""
    monkeypatch.setitem(globals(), "TurnGRPOTrainer", no_credit_for("worker"))
    trainer = make(roles, max_steps=2, weight_decay=0.1)
    seen = []
    step = trainer.training_step

    def noted(*args, **kwargs):
        seen.append([weights_of(trainer, name) for name in TWO])
        return step(*args, **kwargs)

    trainer.training_step = noted
    trainer.train()
    last = [weights_of(trainer, name) for name in TWO]
    assert not same(seen[0][1], seen[1][1])
    assert same(seen[1][1], last[1])
    assert not same(seen[1][0], last[0])


@pytest.mark.parametrize(
    ("update", "moves"),
    [({"alternate": 2}, "planner"), ({"freeze": ["planner"]}, "worker")],
)
@pytest.mark.parametrize("roles", [TWO, WHOLE], ids=["lora", "whole"])
@pytest.mark.slow
def test_update_moves_some_learners_alone(make, update, moves, roles):
    trainer = make(roles, update=update, max_steps=2)
    before = {name: weights_of(trainer, name) for name in TWO}
    trainer.train()
    moved = [name for name in TWO if not same(before[name], weights_of(trainer, name))]
    assert moved == [moves]


def test_learners_take_turns(make):
    learners = make(TWO, update={"alternate": 2}).learners
    assert [learners.updated(step) for step in range(5)] == [[0], [0], [1], [1], [0]]


SEQUENTIAL = {"update": "sequential", "num_iterations": 2}


@pytest.mark.slow
def test_sequential_weighs_a_move_by_the_change_of_its_plan(make, generated):
    """The worker's gradient is that of -f A log p by hand, f = new / old probability of the plan."""
    trainer = make(TWO, **SEQUENTIAL)
    batch, rows = generated(trainer), trainer._rows
    num, learners = int(batch["num_items_in_batch"]), trainer.learners
    model = trainer.accelerator.unwrap_model(trainer.model)
    trainer.current_gradient_accumulation_steps = 1

    def score(row):
        learners.use(row.learner)
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        size = len(row.completion_ids)
        logits = model(input_ids=ids).logits[0, -size - 1 : -1] / trainer.temperature
        return logits.log_softmax(-1).gather(1, ids[0, -size:, None])[:, 0]

    pairs = [(rows[i - 1], r) for i, r in enumerate(rows) if r.role == "worker"]
    assert all((a.role, a.trajectory) == ("planner", b.trajectory) for a, b in pairs)
    with torch.no_grad():
        before = [score(plan).sum() for plan, _ in pairs]
        for p in learners.weights[0]:  # the planner's update
            p += 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
        factors = [
            (score(plan).sum() - old).exp()
            for (plan, _), old in zip(pairs, before, strict=True)
        ]
    assert max(factors) - min(factors) > 0.02
    trainer._step = 1
    trainer._compute_loss(trainer.model, batch).backward()
    planner, found = ([p.grad for p in own] for own in learners.weights)
    assert not any(grad is not None and grad.any() for grad in planner)
    model.zero_grad()
    for (_, row), factor in zip(pairs, factors, strict=True):
        credit = torch.tensor(row.advantage).float()
        (-(factor * credit * score(row)).sum() / num).backward()
    assert any(grad.any() for grad in found)
    for grad, p in zip(found, learners.weights[1], strict=True):
        torch.testing.assert_close(grad, p.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("roles", [TWO, WHOLE], ids=["lora", "whole"])
@pytest.mark.slow
def test_sequential_moves_one_learner_after_the_other(make, roles):
    trainer = make(roles, **SEQUENTIAL, max_steps=2, beta=0.1, logging_steps=1)
    seen, step = [], trainer.training_step

    def noted(*args, **kwargs):
        seen.append([weights_of(trainer, name) for name in TWO])
        return step(*args, **kwargs)

    trainer.training_step = noted
    trainer.train()
    seen.append([weights_of(trainer, name) for name in TWO])
    pairs = [zip(*two, strict=True) for two in pairwise(seen)]
    moved = [[not same(one, other) for one, other in pair] for pair in pairs]
    assert moved == [[True, False], [False, True]]
    assert trainer.state.log_history[1]["arena/learner/worker/factor"] != 1


@pytest.mark.slow
def test_sequential_updates_of_one_learner_are_joint(make):
    agent = lambda model: AgentPolicy(alone, model)  # noqa: E731
    found = []
    for update in ("joint", "sequential"):
        options = {"update": update, "num_iterations": 2, "max_steps": 4}
        trainer = make({"me": {"lora_r": 2}}, agent, **options)
        trainer.train()
        found.append(weights_of(trainer, "me"))
    for name, weights in found[0].items():
        torch.testing.assert_close(found[1][name], weights, atol=1e-6, rtol=0)


def test_a_factor_is_of_the_calls_of_earlier_learners_since_the_last_own_call():
    calls = [(0, 0), (0, 0), (0, 1), (0, 0), (0, 2), (0, 1), (1, 1), (1, 0)]
    rows = [TrainingRow([1], [2], None, 0.0, None, (e, 0), learner=m) for e, m in calls]
    sums = earlier_gaps(rows, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], 3)
    assert sums == [0, 0, 1 + 2, 0, 1 + 2 + 4 + 8, 8, 0, 0]


def test_a_step_without_a_turn_of_its_learner_logs_no_return(make, generated):
    only = {"opponents": ["self", "random"], "update": {"freeze": [0]}}
    trainer = make(SEATS, agent=None, **only)
    generated(trainer)
    assert (
        not {"reward", "completions/clipped_ratio"} & trainer._metrics["train"].keys()
    )


def test_seats_have_adapters_of_their_own(make):
    trainer = make(SEATS, None, update={"freeze": [1]})
    before = weights_of(trainer, "seat_1")
    trainer.train()
    assert same(before, weights_of(trainer, "seat_1"))
    assert weights_of(trainer, "seat_0")["base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"].any()  # fmt: skip
    assert {row.learner for row in trainer._rows} == {0}


@pytest.mark.slow
def test_a_learner_has_its_own_learning_rate_and_kl_weight(make):
    own = {"lora_r": 2, "learning_rate": 0.5, "beta": 0.2}
    trainer = make({"planner": {"lora_r": 4}, "worker": own}, max_steps=1)
    trainer.train()
    rates = [group["initial_lr"] for group in trainer.optimizer.param_groups]
    assert rates == [1e-3, 0.5]
    assert torch.allclose(trainer.learners.betas, torch.tensor([0.0, 0.2]))
    logged = trainer.state.log_history[0]
    assert {"grad_norm", "advantage", "kl"} == {
        key.rpartition("/")[2] for key in logged if "learner/worker/" in key
    }
    term = trainer.learners.kl_term({"learner": torch.tensor([0, 1, 0])})
    assert term != 0.0
    for product in (term * torch.ones(3, 2), torch.ones(3, 2) * term):
        assert product[:, 0].tolist() == [0.0, pytest.approx(0.2), 0.0]
    assert trainer.learners.kl_term({"learner": torch.tensor([0, 0])}) == 0.0


@pytest.mark.parametrize(
    "roles",
    [
        {"planner": {"lora_r": 2}, "worker": {"lora_r": 4, "learning_rate": 1e-2}},
        {"planner": {"beta": 0.1}, "worker": {"learning_rate": 1e-2}},
    ],
    ids=["lora", "whole"],
)
@pytest.mark.slow
def test_a_resumed_run_is_the_unbroken_one(make, tmp_path, roles):
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 2}
    unbroken = make(roles, **options)
    unbroken.train()
    resumed = make(roles, **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    for name in TWO:
        assert same(weights_of(unbroken, name), weights_of(resumed, name))


@pytest.mark.slow
def test_a_checkpoint_of_another_rank_names_the_learner(make, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 1}
    make(TWO, **options).train()
    other = make({**TWO, "worker": {"lora_r": 3}}, **options)
    with pytest.raises(ValueError, match="want learner 'worker' with lora_r 3"):
        other.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-1"))


def test_a_saved_adapter_plays(make, tmp_path):
    trainer = make(TWO)
    trainer.save_model(str(tmp_path / "model"))
    policy = LMPolicy.from_pretrained(tmp_path / "model" / "worker")
    assert policy.prompt == trainer.args.prompt


def test_a_row_without_a_learner_names_its_role(make):
    trainer = make(TWO)
    row = TrainingRow([1], [2], None, 0.0, trajectory=(0, 0), role="judge")
    with pytest.raises(ValueError, match="want a learner for 'judge', roles has"):
        trainer.learners.rows_of([row], 0, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"roles": {"planner": {"lora": 2}}}, "has no option 'lora'"),
        ({"roles": {"a": {}, 1: {}}}, "want roles of an agent, or seats without one"),
        ({"roles": TWO, "update": {"freeze": [*TWO]}}, "some, but not all"),
        ({"roles": TWO, "update": {"alternate": 0}}, "some, but not all"),
        ({"update": {"freeze": ["planner"]}}, "none: set roles"),
        ({"update": "sequential"}, "none: set roles"),
        ({"roles": TWO, "update": "jont"}, "some, but not all"),
        ({"roles": TWO, "update": "sequential"}, "num_iterations divisible by 2"),
        (
            {"roles": TWO, **SEQUENTIAL, "gradient_accumulation_steps": 2}
            | {"steps_per_generation": 1},
            "whole steps of 2 micro-batches, got 2 in all",
        ),
        (
            {"roles": SEATS, **SEQUENTIAL, "branch": {"num_candidates": 2}},
            "update sequential does not support branch",
        ),
        (
            {"roles": {"planner": {"model": "a", "lora_r": 2}}},
            "or as {model: PATH}, a whole model, got",
        ),
        (
            {"roles": TWO, "credit": "poad", "critic": "tokens"},
            "roles does not support critic .tokens.: it reads one model",
        ),
    ],
)
def test_learners_that_do_not_fit_are_refused(settings, options, problem):
    with pytest.raises(ValueError, match=problem):
        TurnGRPOConfig(**{**settings, **options})


PAST = {"past_selves": {"every": 1}}


def test_an_engine_of_roles_plays_no_snapshots(settings):
    args = TurnGRPOConfig(**settings, roles=TWO, opponents=PAST)
    args.use_vllm = True  # it is not installed
    with pytest.raises(ValueError, match="roles with use_vllm does not support opp"):
        check_together(args)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize("roles", [TWO, WHOLE])
def test_a_past_self_plays_each_role_with_the_weights_of_then(make, roles):
    """The snapshot of step 0 has the replies of the start, in both roles."""
    request = TurnRequest.at(
        KUHN, KUHN.apply(KUHN.apply(KUHN.initial_state(), 0), 1), SHORT
    )
    options = {"opponents": PAST, "max_steps": 2, "learning_rate": 0.05}
    options |= {"credit": "gae", "critic": "features"}  # it reads no model
    trainer = make(roles, **options)

    def replies(player):
        models = player.models
        return [models[name].action_probs([request])[0][0] for name in roles]

    at_start = replies(trainer.matching.learner)
    trainer.train()
    past, now = (replies(trainer.matching.policies([n])[0]) for n in ("self@0", "self"))
    np.testing.assert_allclose(past, at_start, atol=1e-6)
    assert np.abs(np.subtract(now, at_start)).max() > 1e-3
    opponents = {r.opponent for r in trainer.last_selected.records}
    assert opponents == {("self@0",), ("self@1",)}


@pytest.mark.slow
def test_a_resumed_run_of_roles_meets_the_same_past_selves(make, tmp_path):
    options = {"opponents": PAST, "save_strategy": "steps", "save_steps": 2}
    whole = make(TWO, max_steps=4, output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    resumed = make(TWO, max_steps=4, output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    for name in TWO:
        for key, weights in weights_of(whole, name).items():
            torch.testing.assert_close(
                weights_of(resumed, name)[key], weights, atol=1e-6, rtol=0
            )


def test_whole_models_have_the_gradients_of_one_model_runs(make, generated):
    """Equal starts play the same episodes; a run of one model trains on the rows of one role."""
    two, plain = make(WHOLE), make({})
    batch, same_batch = generated(two), generated(plain)
    assert torch.equal(batch["completion_ids"], same_batch["completion_ids"])
    for trainer in (two, plain):
        trainer.current_gradient_accumulation_steps = 1
    two._compute_loss(two.model, batch).backward()
    for i, own in enumerate(two.learners.weights):
        mask = same_batch["tool_mask"] * (batch["learner"] == i)[:, None]
        plain.model.zero_grad()
        loss = plain._compute_loss(plain.model, {**same_batch, "tool_mask": mask})
        loss.backward()
        wanted = [p.grad for p in plain.model.parameters()]
        assert any(grad.any() for grad in wanted)
        for p, grad in zip(own, wanted, strict=True):
            torch.testing.assert_close(p.grad, grad, atol=1e-6, rtol=1e-4)


@pytest.fixture
def folder_of(model_folder, tmp_path):
    """Writes a model of a run's tokenizer: with other weights, or of another size."""

    def folder_of(name, **sizes):
        config = AutoConfig.from_pretrained(model_folder, **sizes)
        torch.manual_seed(7)
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / name)
        AutoTokenizer.from_pretrained(model_folder).save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return folder_of


def test_a_whole_learner_may_start_as_another_model(make, folder_of, generated):
    """Its KL term compares it with that model."""
    other = {"planner": {}, "worker": {"model": folder_of("other"), "beta": 0.5}}
    trainer = make(other)
    assert not same(weights_of(trainer, "planner"), weights_of(trainer, "worker"))
    batch = generated(trainer)
    real = batch["tool_mask"].bool()
    trainer.current_gradient_accumulation_steps = 1
    gap = batch["ref_per_token_logps"] - batch["sampling_per_token_logps"]
    assert gap[real].abs().max() < 1e-4


def test_a_whole_model_of_other_shapes_names_its_role(make, folder_of):
    roles = {"planner": {}, "worker": {"model": folder_of("wide", intermediate_size=8)}}
    with pytest.raises(
        ValueError,
        match=r"want model\.layers.* of 'worker' in the shape .* got \(16, 8\)",
    ):
        make(roles)


def test_whole_models_that_do_not_fit_name_the_memory(make, monkeypatch):
    monkeypatch.setattr(whole_learners, "free_memory", lambda device: 0)
    wanted = r"GiB .* \(weights .*, gradients .* models .*\), got .* free; give each"
    with pytest.raises(ValueError, match=wanted):
        make({"planner": {"beta": 0.1}, "worker": {}})


@pytest.mark.slow
def test_a_checkpoint_without_a_whole_model_names_the_learner(make, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 1}
    make(TWO, **options).train()
    other = make(WHOLE, **options)
    with pytest.raises(ValueError, match="want a whole model of 'planner' in"):
        other.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-1"))


@pytest.mark.slow
def test_a_saved_whole_model_is_an_ordinary_one(make, tmp_path):
    trainer = make(WHOLE)
    trainer.train()
    trainer.save_model(str(tmp_path / "model"))
    for name in WHOLE:
        saved = LMPolicy.from_pretrained(tmp_path / "model" / name).model
        named = {n: p.detach() for n, p in saved.named_parameters()}
        assert same(named, weights_of(trainer, name))


def test_roles_need_an_agent_and_a_rank(make):
    with pytest.raises(ValueError, match="need agent, such as planner_worker"):
        make(TWO, None)
    with pytest.raises(ValueError, match=r"whole model in roles\['worker'\]"):
        make({"planner": {"lora_r": 2}, "worker": {}})
    base = LoraConfig(**LORA, lora_alpha=6)
    trainer = make({"planner": {}, "worker": {"lora_r": 4}}, peft=base)
    found = trainer.model.peft_config
    assert [(one.r, one.lora_alpha) for one in found.values()] == [(2, 6), (4, 12)]


def test_a_role_may_begin_as_a_model_by_name(make, model_folder, tmp_path, monkeypatch):
    """`smollm2` stands for the folder into which its package was converted."""
    monkeypatch.setenv("ARENA_CACHE", str(tmp_path))
    shutil.copytree(model_folder, tmp_path / "SmolLM2-135M-Instruct")
    trainer = make({"planner": {"model": "smollm2"}, "worker": {}})
    assert same(weights_of(trainer, "planner"), weights_of(trainer, "worker"))
