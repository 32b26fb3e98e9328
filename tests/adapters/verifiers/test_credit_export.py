"""`credit.export(..., to="verifiers")`, read by verifiers' own trace."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

import arena_credit as credit
import arena_envs
from arena_credit.hooks.verifiers import annotate
from arena_wrappers import PromptWrapper, ScriptedPolicy, play

trace = pytest.importorskip("verifiers.v1.trace")


class Speller(ScriptedPolicy):
    """Reports tokens: a code point each."""

    def act(self, requests):
        found = []
        for request, reply in zip(requests, super().act(requests), strict=True):
            context = list(request.context_ids)
            shown = request.messages if not context else request.messages[-1:]
            context += [ord(c) for message in shown for c in message["content"]]
            ids = [ord(c) for c in reply.text]
            tokens = {"prompt_ids": context, "token_ids": ids}
            found.append(replace(reply, logprobs=[-1.0] * len(ids), **tokens))
        return found


@pytest.fixture(params=["state", "transcript"])
def episodes(request):
    def env():
        return PromptWrapper(arena_envs.make("kuhn_poker"), history=request.param)

    speller = Speller(lambda r: r.wrap(r.legal[r.seed % 2]), name="speller")
    return play(env, speller, range(8), num_samples=2)


def texts(turn):
    return [*(message["content"] for message in turn.messages), turn.reply]


def test_their_trace_reads_rewards_advantages_and_tokens(episodes, record_property):
    exported = credit.export(episodes, "mars", "verifiers")
    assert len(exported) == 2 * len(episodes)
    longest = 0
    for entry in exported:
        entry = json.loads(json.dumps(entry))
        found = trace.WireTrace.model_validate(entry)
        number, seat = found.task.data.idx, int(found.agent.name[-1])
        turns = [turn for turn in episodes[number].turns if turn.seat == seat]
        assert found.reward == episodes[number].returns[seat]
        assert found.info["turn_rewards"] == [turn.reward for turn in turns]
        assert found.num_turns == len(turns)
        longest = max(longest, len(turns))
        advantages = found.info["turn_advantages"]
        for branch in found.branches:
            shown = [message.content for message in branch.messages]
            (turn,) = (t for t in turns if texts(t) == shown)
            assert branch.token_ids == [*turn.prompt_ids, *turn.token_ids]
            assert len(branch.advantages) == len(branch.token_ids)
            pairs = zip(branch.advantages, branch.sampled_mask, strict=True)
            own = [x for x, is_sampled in pairs if is_sampled][-len(turn.token_ids) :]
            assert own == [advantages[turn.index]] * len(turn.token_ids)
        again = trace.WireTrace.model_validate_json(found.model_dump_json())
        assert again.info == found.info
    assert longest == 2
    record_property("learned", "a trace holds token advantages of `credit.export`")


@pytest.fixture
def bare(episodes):
    """Traces of a group without advantages, and the advantages of `credit.export`."""
    pairs = zip(episodes[::2], episodes[1::2], strict=True)  # of one seed each
    pair = next(pair for pair in pairs if pair[0].returns != pair[1].returns)
    exported = credit.export(pair, "rloo", "verifiers")
    traces = [trace.WireTrace.model_validate(entry) for entry in exported]
    expected = advantages(traces)
    for found in traces:
        for node in found.nodes:
            node.advantages = None
    return traces, expected


def advantages(traces):
    return [[node.advantages for node in found.nodes] for found in traces]


def episodes_of(traces):
    """One episode for each two traces, as `bare` has two seats."""
    task = SimpleNamespace(hash="start")
    pairs = zip(traces[::2], traces[1::2], strict=True)
    return [SimpleNamespace(traces=pair, task=task, group=None) for pair in pairs]


def test_annotate_writes_into_their_traces_what_export_has(bare):
    traces, expected = bare
    annotate(episodes_of(traces), "rloo")
    assert advantages(traces) == expected


def test_prime_rl_scores_a_group_by_the_algorithm_in_use(bare, monkeypatch):
    algo = pytest.importorskip("prime_rl.orchestrator.algo", reason="wants Python 3.12")
    from prime_rl.configs.algorithm import GRPOAlgoConfig

    from arena_credit.hooks.prime_rl import use

    monkeypatch.setattr(algo, "ALGORITHM_CLASSES", {**algo.ALGORITHM_CLASSES})
    use("rloo")
    traces, expected = bare
    turns = algo.build_algorithm(GRPOAlgoConfig(), None)
    asyncio.run(turns.finalize_group(episodes_of(traces)))
    assert advantages(traces) == expected
