"""Continuous generation: a stand-in for vLLM's engine writes replies of different lengths."""

import sys
from types import SimpleNamespace

import pytest

import arena_envs
from arena_trainers.lm.backends.vllm import EngineRequests, VLLMBackend
from arena_trainers.train.clock import Clock, TimedBackend
from arena_wrappers import AgentPolicy, PromptWrapper, RandomPolicy, play_plans
from arena_wrappers.play import Branching, plans_of
from arena_wrappers.play.schedule import Scheduler, _numbered
from arena_wrappers.policies.agents import candidates


class Engine:
    """Writes the tokens of a policy, but pretends that some replies are long: one step a token."""

    def __init__(self, policy, room=8):
        self.policy, self.room = policy, room
        self.steps_left, self.outputs, self.aborted = {}, {}, []
        self.num_steps, self.busy = 0, 0
        self.seeds, self.fails_at = set(), None

    def add_request(self, name, prompt, params, lora_request=None):
        seed = params.seed or 0
        self.seeds.add(params.seed)
        (reply,) = self.policy.generate([prompt["prompt_token_ids"]], [seed])
        steps = [
            {t: SimpleNamespace(logprob=x)}
            for t, x in zip(reply.token_ids, reply.logprobs, strict=True)
        ]
        written = SimpleNamespace(token_ids=reply.token_ids, logprobs=steps)
        self.outputs[name] = SimpleNamespace(
            request_id=name, finished=True, outputs=[written]
        )
        self.steps_left[name] = 1 + seed % 13 ** (seed % 3)

    def abort_request(self, names):
        self.aborted += names
        for name in names:
            del self.steps_left[name]

    def step(self):
        self.num_steps += 1
        if self.num_steps == self.fails_at:
            raise RuntimeError("out of memory")
        running = list(self.steps_left)[: self.room]
        self.busy += len(running)
        for name in running:
            self.steps_left[name] -= 1
        over = [name for name in running if self.steps_left[name] == 0]
        for name in over:
            del self.steps_left[name]
        return [self.outputs.pop(name) for name in over]


@pytest.fixture
def on_engine(policy, monkeypatch):
    """The policy on a new engine, and the engine."""
    params = SimpleNamespace(
        SamplingParams=lambda **options: SimpleNamespace(**options),
        RequestOutputKind=SimpleNamespace(FINAL_ONLY=2),
    )
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(sampling_params=params))
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)

    def make(**options):
        plain = type(policy)(policy.model, policy.tokenizer, max_new_tokens=2)
        engine = Engine(plain)
        requests = EngineRequests(SimpleNamespace(llm_engine=engine), **options)
        served = type(policy)(policy.model, policy.tokenizer, max_new_tokens=2)
        served.backend = TimedBackend(VLLMBackend(requests, lambda: None), Clock())
        return served, engine

    return make


@pytest.fixture
def env_fn():
    kuhn = arena_envs.make("kuhn_poker")
    return lambda: PromptWrapper(kuhn, "bare", rules=False, on_invalid="random")


def in_lockstep(plans):
    return _numbered(dict(Scheduler(None, None).in_lockstep(plans, None)))


@pytest.mark.parametrize("branch", [None, Branching(2, seats=[1])])
def test_records_are_those_of_lockstep_in_fewer_steps(on_engine, env_fn, branch):
    """A full engine: the steps of lockstep wait for the longest reply of each round."""
    policy, engine = on_engine()
    plans = plans_of(env_fn, [policy, policy], range(12), [0], branch)
    expected, steps = in_lockstep(plans), engine.num_steps
    assert play_plans(plans) == expected
    assert engine.num_steps - steps < 0.8 * steps
    assert not engine.steps_left
    assert len({turn.reply for e in expected for turn in e.turns}) > 2
    clock = policy.backend.clock
    assert clock.counts["generated"] == 2 * engine_tokens(expected)
    assert clock._parts == ["rest"]


def engine_tokens(episodes):
    """Tokens that were generated: those before a branch once."""
    return sum(
        len(turn.token_ids)
        for episode in episodes
        for turn in episode.turns[episode.branch or 0 :]
    )


def test_an_agents_calls_of_one_turn_are_in_progress_together(on_engine, env_fn):
    policy, engine = on_engine()
    agent = AgentPolicy(candidates, policy, num=3)
    plans = plans_of(env_fn, [agent, RandomPolicy()], [0, 1], [0])
    expected, steps = in_lockstep(plans), engine.num_steps
    assert play_plans(plans) == expected
    assert engine.num_steps - steps <= steps


def test_a_failure_is_raised_and_ends_the_other_requests(on_engine, env_fn):
    policy, engine = on_engine()
    engine.fails_at = 3
    plans = plans_of(env_fn, [policy, policy], range(12), [0])
    with pytest.raises(RuntimeError, match="out of memory"):
        play_plans(plans, on_error="raise")
    assert not policy.backend.inner.requests._in_progress
    assert not engine.steps_left
    assert len(play_plans(plans)) == 12  # the engine is of use again


def test_an_adapter_goes_when_no_request_reads_it_any_more(on_engine, env_fn):
    policy, _ = on_engine()
    requests, adapter, outputs = policy.backend.inner.requests, object(), []
    for seed, read in ((5, adapter), (11, None)):
        requests.add([4, 5], seed, policy.sampling, read, outputs.append)
    requests.finish(adapter)
    assert [output.request_id for output in outputs] == ["arena-0"]


def test_seeds_are_of_requests_or_of_the_engine(on_engine, env_fn):
    for seeds in ("request", "engine"):
        policy, engine = on_engine(seeds=seeds)
        play_plans(plans_of(env_fn, [policy, policy], range(4), [0]))
        assert (engine.seeds == {None}) == (seeds == "engine")
