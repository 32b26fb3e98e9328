"""Keys and values that are kept between rounds change no reply, and go with the weights."""

import random

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

import arena_envs
from arena_trainers.lm import LMPolicy, reply_logprobs
from arena_trainers.lm.backends import Sampling, prefixes
from arena_trainers.lm.backends.memory import GenerationLimits
from arena_trainers.lm.backends.prefix_tree import PrefixTree
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, play

SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.1,
}
GAMES = (
    "tic_tac_toe",
    "leduc_poker",
    "goofspiel",
    "mini_hanabi",
    "bargaining",
    "kuhn_poker",
)
SAMPLING = Sampling(6, end_ids=(1, 2, 3, 4))


@pytest.fixture(autouse=True)
def worth_it(monkeypatch):
    """A tiny model's prompts would not be kept."""
    monkeypatch.setattr(prefixes, "LEAST_PRODUCTS", 0)
    monkeypatch.setattr(prefixes, "PASS_PRODUCTS", 0)
    monkeypatch.setitem(prefixes.WEIGHT_TOKENS, "cpu", 8)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SMALL)).eval()


def conversations(backend, num_rounds=3, num=6):
    """Prompts and generated replies of each round; some conversations are equal, some rewritten."""
    rng = np.random.default_rng(0)

    def words(low, high):
        return rng.integers(5, 60, rng.integers(low, high)).tolist()

    head = words(30, 31)
    prompts = [[*head, *words(1, 20)] for _ in range(num)]
    prompts += prompts[:2]
    for number in range(num_rounds):
        seeds = [100 * number + i for i in range(len(prompts))]
        generated = backend.generate(prompts, seeds, SAMPLING)
        yield prompts, seeds, generated
        prompts = [
            [*prompt, *reply, *words(1, 9)]
            for prompt, reply in zip(prompts, generated.token_ids, strict=True)
        ]
        prompts[0] = [*prompts[0][:35], *words(3, 9)]  # as where thinking is cut out


def check_rounds(model, backend):
    """Each reply is that of the prompt alone, computed anew."""
    for prompts, seeds, generated in conversations(backend):
        for i, prompt in enumerate(prompts):
            fresh = TransformersBackend(model, 0).generate(
                [prompt], [seeds[i]], SAMPLING
            )
            assert fresh.token_ids == [generated.token_ids[i]]
            assert fresh.logprobs[0] == pytest.approx(generated.logprobs[i], abs=1e-5)


def computed_tokens(model, monkeypatch):
    """A list of the tokens of each forward pass from here on."""
    tokens = []
    forward = model.forward

    def counted(*args, **inputs):
        tokens.append(inputs["input_ids"].numel())
        return forward(*args, **inputs)

    monkeypatch.setattr(model, "forward", counted)
    return tokens


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("history", ["state", "transcript"])
def test_episodes_are_those_without_a_cache(history, game, monkeypatch):
    """In six games; log-probabilities within 1e-5."""
    options = PromptOptions("answer", history=history)
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game(game), options))
    model = tiny_model(tokenizer, hidden_size=16, num_layers=2, seed=1).eval()

    def episodes():
        policy = LMPolicy(model, tokenizer, max_new_tokens=6, prompt=options)
        return play(game, policy, range(2), num_samples=3)

    kept = episodes()
    monkeypatch.setattr(prefixes, "LEAST_PRODUCTS", 10**18)
    anew = episodes()
    for one, two in zip(kept, anew, strict=True):
        assert [t.token_ids for t in one.turns] == [t.token_ids for t in two.turns]
        for turn, same in zip(one.turns, two.turns, strict=True):
            assert turn.logprobs == pytest.approx(same.logprobs, abs=1e-5)


def test_replies_of_several_rounds_are_those_of_each_prompt_alone(model):
    check_rounds(model, TransformersBackend(model, 0))


def test_a_round_computes_what_is_new(model, monkeypatch):
    """The head once, what a round adds once, and a token of each row a step."""
    backend = TransformersBackend(model, 0)
    backend.generate([[5, 6]], [0], SAMPLING)  # the model is measured
    backend.forget_episodes()
    tokens = computed_tokens(model, monkeypatch)
    rounds = conversations(backend)
    prompts, *_ = next(rounds)
    assert tokens[0] == 30
    tokens.clear()
    later, *_ = next(rounds)
    longest = max(
        len(new) - len(old) for new, old in zip(later[1:], prompts[1:], strict=True)
    )
    assert sum(len(prompt) for prompt in later) > 300
    assert tokens[0] <= 8 * longest


def test_without_room_what_was_used_longest_ago_goes(model, monkeypatch):
    """The replies stay the same."""
    monkeypatch.setattr(
        GenerationLimits,
        "of",
        lambda *_: GenerationLimits(max_tokens=400, max_kept=150, sampler_tokens=1),
    )
    backend = TransformersBackend(model, 0)
    check_rounds(model, backend)
    assert backend._store.pool.num_slots < 400


def test_prompts_that_memory_does_not_hold_at_once_are_split(model, monkeypatch):
    monkeypatch.setattr(
        GenerationLimits,
        "of",
        lambda *_: GenerationLimits(max_tokens=120, max_kept=256, sampler_tokens=1),
    )
    tokens = computed_tokens(model, monkeypatch)
    check_rounds(model, TransformersBackend(model, 0))
    assert max(tokens) <= 120


def test_a_cache_does_not_survive_an_update_of_the_weights(model):
    """In place, as an optimizer makes it."""
    backend = TransformersBackend(model, 0)
    prompt, seed = list(range(5, 40)), [3]
    before = backend.generate([prompt], seed, SAMPLING)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.tensor([prompt])).logits.square().mean().backward()
    optimizer.step()
    after = backend.generate([prompt], seed, SAMPLING)
    fresh = TransformersBackend(model, 0).generate([prompt], seed, SAMPLING)
    assert after == fresh != before


def test_the_cache_ends_with_play(policy, kuhn_env):
    """Weights may then change in ways that tensors do not count."""
    play(kuhn_env, policy, range(2))
    assert policy.backend._store is None
    policy.generate([[5, 6, 7]], [0])
    assert policy.backend._store is not None


def test_adapters_do_not_share_a_cache(model):
    peft = pytest.importorskip("peft")
    options = {"target_modules": ["k_proj", "v_proj"], "init_lora_weights": False}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**options), "first")
    adapted.add_adapter("second", peft.LoraConfig(**options))
    adapted.eval()
    backend = TransformersBackend(adapted, 0)
    prompt = list(range(5, 40))
    for name in ("first", "second", "first"):
        adapted.set_adapter(name)
        fresh = TransformersBackend(adapted, 0).generate([prompt], [3], SAMPLING)
        assert backend.generate([prompt], [3], SAMPLING) == fresh


def test_a_sliding_window_is_computed_anew():
    torch.manual_seed(0)
    config = MistralConfig(**SMALL, sliding_window=8, head_dim=4)
    model = MistralForCausalLM(config).eval()
    backend = TransformersBackend(model, 0)
    check_rounds(model, backend)
    assert backend._store is None


def test_scoring_replies_computes_each_prompt_once(model, monkeypatch):
    """The shared head, what each prompt adds, and the last tokens of each row."""
    rng = np.random.default_rng(0)
    head = rng.integers(5, 60, 40).tolist()
    prompts = [[*head, *rng.integers(5, 60, 20).tolist()] for _ in range(4)]
    rows = [(prompt, [5 + n] * (1 + n)) for prompt in prompts for n in range(3)]
    how = 0.7, 0, [1, 2]
    with torch.no_grad():
        reply_logprobs(model, rows, *how)  # the model is measured
        tokens = computed_tokens(model, monkeypatch)
        scores = reply_logprobs(model, rows, *how)
        # learning the shape takes 2; the last tokens are those of the longest reply, and 1
        assert sum(tokens) <= 2 + 40 + 4 * 20 + 12 * 4 + 8
        monkeypatch.setattr(prefixes, "LEAST_PRODUCTS", 10**18)
        anew = reply_logprobs(model, rows, *how)
    assert scores == pytest.approx(anew, abs=1e-5)


def test_a_tree_finds_the_longest_beginning():
    """Compared with a search of all texts; evicted slots are those of no text that is left."""
    rng = random.Random(0)
    tree, slot_of = PrefixTree(), {}
    for _ in range(300):
        text = tuple(rng.choices(range(3), k=rng.randrange(1, 9)))
        tree.begin_use()
        _, slots = tree.find(np.array(text))
        beginnings = [text[: n + 1] for n in range(len(text))]
        assert slots.tolist() == [slot_of[b] for b in beginnings if b in slot_of]
        new = np.arange(len(slots), len(text)) + 10 * rng.randrange(10**6)
        tree.add(np.array(text), len(slots), new)
        slot_of.update(zip(beginnings[len(slots) :], new.tolist(), strict=True))
        if rng.random() < 0.1:
            freed = {int(slot) for slots in tree.evict(20) for slot in slots}
            slot_of = {b: slot for b, slot in slot_of.items() if slot not in freed}
            assert all(b in slot_of for b in beginnings)
