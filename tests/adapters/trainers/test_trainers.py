"""verl, ART and ms-swift play seats of games; their trainers need a GPU and are not run."""

import asyncio
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


def letters() -> Any:
    """A tokenizer of transformers: a token is a byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: number for number, name in enumerate(names)}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner)
    made.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>"], "eos_token": "<|im_end|>"}
    )
    made.chat_template = TEMPLATE
    return made


def test_verl_masks_what_the_model_did_not_write() -> None:
    tokenizer = letters()
    reply = tokenizer.encode("<answer>pass</answer><|im_end|>")

    async def generate(request_id: str, prompt_ids: Any, sampling_params: Any) -> Any:
        return SimpleNamespace(token_ids=reply, log_probs=[-1.0] * len(reply))

    async def play(seed: int) -> Any:
        rollout = SimpleNamespace(prompt_length=4096, response_length=4096)
        config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
        loop = load("verl_loop")["ArenaSeat"](
            SimpleNamespace(config=config),
            SimpleNamespace(generate=generate),
            tokenizer,
            None,
            None,
            SimpleNamespace(config={}),
        )
        row = {"extra_info": {"opponents": "random", "seed": seed}, "raw_prompt": []}
        return await loop.run({}, **row)

    lengths = set()
    for seed in range(6):
        found = asyncio.run(play(seed))
        told = tokenizer.decode(found.prompt_ids)
        assert told.startswith("<|im_start|>system\nThis is Kuhn poker")
        own = zip(found.response_ids, found.response_mask, strict=True)
        num_replies = found.num_turns // 2
        assert [token for token, is_own in own if is_own] == reply * num_replies
        assert len(found.response_logprobs) == len(found.response_ids)
        assert sum(found.extra_fields["turn_scores"]) == found.reward_score
        lengths.add(num_replies)
    assert lengths == {1, 2}


def test_art_keeps_choices_and_the_return() -> None:
    from openai.types.chat import ChatCompletionMessage
    from openai.types.chat.chat_completion import Choice

    async def create(model: str, messages: Any) -> Any:
        assert [m["role"] for m in messages[1:]][::2] == ["user"] * (len(messages) // 2)
        said = ChatCompletionMessage(role="assistant", content="<answer>pass</answer>")
        choice = Choice(finish_reason="stop", index=0, message=said)
        return SimpleNamespace(choices=[choice])

    completions = SimpleNamespace(create=create)
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    rollout = load("art_rollout")["rollout"]
    for seed in range(6):
        played = asyncio.run(rollout(client, "m", seed))
        assert played.reward in (-1.0, 1.0)
        assert played.messages()[-1]["content"] == "<answer>pass</answer>"


def test_swift_steps_a_seat() -> None:
    from swift.rollout.gym_env import envs

    load("swift_env")

    async def play() -> tuple[float, Any]:
        env = envs["arena"]({"name": "arena", "seed": 3, "opponents": "random"})
        _, info, system = await env.reset(None)
        assert "Kuhn" in system
        assert info["legal"] == ["pass", "bet"]
        paid, done = 0.0, False
        while not done:
            said = {"role": "assistant", "content": "<answer>bet</answer>"}
            _, reward, done, info = await env.step([said])
            paid += reward
        await env.close()
        return paid, info["outcome"]["returns"][0]

    paid, expected = asyncio.run(play())
    assert paid == expected
