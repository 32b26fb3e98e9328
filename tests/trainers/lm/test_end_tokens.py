"""Where the chat template ends a turn with another token than the tokenizer's EOS."""

import pytest
import torch

import arena_envs
from arena_eval import exploitability
from arena_trainers.data import legal_play
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import tiny_model
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

SHORT = PromptOptions("bare", rules=False)
END, EOS = "<end_of_turn>", "<eos>"


@pytest.fixture(scope="module")
def gemma(stand_in):
    """A model with Gemma's template that imitates legal play: its replies end with END."""
    names = [END, "<start_of_turn>"]
    tokenizer = stand_in.tokenizer_of(stand_in.TEMPLATES["gemma"], names)
    model = tiny_model(tokenizer, hidden_size=32, num_layers=1, seed=1)
    policy = LMPolicy(model, tokenizer, max_new_tokens=5)
    episodes = legal_play([env], 100, seed=0)
    warm_start(policy, episodes, num_steps=60, learning_rate=1e-2, batch_size=32)
    model.eval()
    return policy


def env():
    return PromptWrapper(
        arena_envs.make("kuhn_poker"), "bare", rules=False, show_legal_actions=False
    )


def requests(policy):
    asked = []

    class Recorder(RandomPolicy):
        def act(self, batch):
            asked.extend(batch)
            return super().act(batch)

    play(env, Recorder(), range(10))
    return asked


def test_replies_end_with_the_templates_token_and_with_eos(gemma):
    ends = gemma.tokenizer.convert_ids_to_tokens(gemma.eos_ids)
    assert ends == [END, EOS]


def test_a_warm_start_teaches_the_token_that_the_template_ends_a_turn_with(gemma):
    replies = gemma.act(requests(gemma))
    ended = [gemma.tokenizer.decode(reply.token_ids[-1:]) for reply in replies]
    assert ended.count(END) > 0.9 * len(ended)


def test_a_legal_model_has_little_illegal_mass(gemma):
    asked = requests(gemma)
    episodes = play(env, gemma, range(300))
    turns = [turn for episode in episodes for turn in episode.turns]
    spoken = sum(turn.invalid is None for turn in turns) / len(turns)
    mass = sum(illegal for _, illegal in gemma.action_probs(asked)) / len(asked)
    assert spoken > 0.9
    assert mass == pytest.approx(1 - spoken, abs=0.05)
    options = PromptOptions("bare", rules=False, show_legal_actions=False)
    found = exploitability(gemma, arena_envs.make_game("kuhn_poker"), options)
    assert found.illegal_mass < 0.1


def test_an_answer_is_scored_over_all_tokens_that_end_it(gemma):
    """Against a plain forward pass for each legal action and each end token."""
    (request,) = requests(gemma)[:1]
    ((found, illegal),) = gemma.action_probs([request])
    prompt = gemma.prompt_ids(request)
    mass = []
    for text in request.legal:
        total = 0.0
        for end in gemma.eos_ids:
            answer = [*gemma.chat.ids(text), end]
            ids = torch.tensor([[*prompt, *answer]])
            with torch.no_grad():
                logprobs = gemma.model(input_ids=ids).logits[0].log_softmax(dim=-1)
            at = range(len(prompt) - 1, len(prompt) - 1 + len(answer))
            total += float(logprobs[list(at), answer].sum().exp())
        mass.append(total)
    assert found == pytest.approx([m / sum(mass) for m in mass], abs=1e-5)
    assert illegal == pytest.approx(1 - sum(mass), abs=1e-5)


def test_a_model_whose_settings_name_an_end_token_stops_at_it(gemma):
    token = gemma.tokenizer.convert_tokens_to_ids("<start_of_turn>")
    before = gemma.model.generation_config.eos_token_id
    gemma.model.generation_config.eos_token_id = [token]
    try:
        policy = LMPolicy(gemma.model, gemma.tokenizer)
    finally:
        gemma.model.generation_config.eos_token_id = before
    assert policy.eos_ids == [*gemma.eos_ids, token]


def test_a_model_whose_replies_no_token_ends_is_refused(stand_in):
    tokenizer = stand_in.tokenizer_of("{{ messages[0].content }}", [])
    model = tiny_model(tokenizer, hidden_size=8, num_layers=1)
    tokenizer.eos_token = None
    model.generation_config.eos_token_id = None
    with pytest.raises(ValueError, match="no token ends a reply"):
        LMPolicy(model, tokenizer)
