"""CPU time of a training step of the default job, beside a loop that is written for it alone.

The loop plays Kuhn poker by string comparison, runs equal prompts and equal rows once, and has GRPO's loss
with a reference, in plain PyTorch: no prompts, no parsing, no records, no options. It starts from the same
model. Both take turns of a few steps in one process, so that other load slows both alike.

    python benchmarks/floor_speed.py
    python benchmarks/floor_speed.py --episodes 1024 --steps 2
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from step_speed import start

GROUP, BETA, LEARNING_RATE, CLIP = 8, 0.4, 1e-3, 0.2
Key = tuple[int, str, str]  # seat, card, actions so far


class Row(NamedTuple):
    """A turn: its prompt, its two tokens or one, and its advantage."""

    key: Key
    tokens: tuple[int, ...]
    advantage: float


class Floor:
    """The loop.

    Args:
        folder: of the model and its tokenizer.
        episodes: of a step.
    """

    def __init__(self, folder: Path, episodes: int) -> None:
        from transformers import AutoModelForCausalLM

        load: Any = AutoModelForCausalLM.from_pretrained
        self.model, self.reference = load(folder), load(folder).eval()
        self.prompts, self.action_of, self.ends = kuhn_tokens(folder)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        self.rng, self.episodes = random.Random(0), episodes

    def step(self) -> None:
        rows = self.played()
        distinct = list(dict.fromkeys((row.key, row.tokens) for row in rows))
        place = {row: i for i, row in enumerate(distinct)}
        source = torch.tensor([place[row.key, row.tokens] for row in rows])
        texts = [[*self.prompts[key], *tokens] for key, tokens in distinct]
        replies = [len(tokens) for _, tokens in distinct]
        with torch.no_grad():
            reference = logprobs(self.reference, texts, replies)[source]
        self.model.train()
        new = logprobs(self.model, texts, replies)[source]
        mask = torch.tensor([[1.0, float(len(row.tokens) == 2)] for row in rows])
        advantage = torch.tensor([[row.advantage] for row in rows])
        ratio = (new - new.detach()).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        gap = reference - new
        loss = (BETA * (gap.exp() - gap - 1) - gain) * mask
        torch.autograd.backward(loss.sum() / mask.sum())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def played(self) -> list[Row]:
        """The turns of the episodes of a step, with GRPO's advantages without deviation."""
        self.model.eval()
        games: list[dict[str, Any]] = []
        for group in range(self.episodes // GROUP):
            cards = self.rng.sample("JQK", 2)
            games += [
                {"group": group, "cards": cards, "past": "", "turns": [], "pay": None}
                for _ in range(GROUP)
            ]
        live = games
        while live:
            keys = [
                (
                    len(game["past"]) % 2,
                    game["cards"][len(game["past"]) % 2],
                    game["past"],
                )
                for game in live
            ]
            for game, key, tokens in zip(live, keys, self.sampled(keys), strict=True):
                game["turns"].append((key, tokens))
                action = self.action_of.get(tokens)
                game["past"] += action or ""
                game["pay"] = payoff(game["cards"], game["past"], action, key[0])
            live = [game for game in live if game["pay"] is None]
        pools: dict[tuple[int, int], list[float]] = defaultdict(list)
        for game in games:
            for seat in (0, 1):
                pools[game["group"], seat].append(game["pay"][seat])
        means = {pool: statistics.fmean(values) for pool, values in pools.items()}
        return [
            Row(key, tokens, game["pay"][key[0]] - means[game["group"], key[0]])
            for game in games
            for key, tokens in game["turns"]
        ]

    @torch.no_grad()
    def sampled(self, keys: Sequence[Key]) -> list[tuple[int, ...]]:
        """A reply of one token or two for each prompt; equal prompts run once."""
        distinct = list(dict.fromkeys(keys))
        place = {key: i for i, key in enumerate(distinct)}
        source = torch.tensor([place[key] for key in keys])
        ids, mask, positions = padded([self.prompts[key] for key in distinct])
        inputs = {"attention_mask": mask, "position_ids": positions}
        output = self.model(input_ids=ids, **inputs, use_cache=True, logits_to_keep=1)
        first = output.logits[source, -1].softmax(-1).multinomial(1)[:, 0]
        pairs, of_pair = torch.unique(
            torch.stack([source, first]), dim=1, return_inverse=True
        )
        cache = output.past_key_values
        cache.reorder_cache(pairs[0])
        output = self.model(
            input_ids=pairs[1][:, None],
            attention_mask=torch.nn.functional.pad(mask[pairs[0]], (0, 1), value=1),
            position_ids=positions[pairs[0]][:, -1:] + 1,
            past_key_values=cache,
            use_cache=True,
        )
        second = output.logits[of_pair, -1].softmax(-1).multinomial(1)[:, 0]
        return [
            (a,) if a in self.ends else (a, b)
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]


def payoff(
    cards: Sequence[str], past: str, action: str | None, seat: int
) -> tuple[float, float] | None:
    """The payments of both seats; None while the game goes on. A forfeit costs 2."""
    if action is None:
        return (-2.0, 2.0) if seat == 0 else (2.0, -2.0)
    first = 1.0 if "JQK".index(cards[0]) > "JQK".index(cards[1]) else -1.0
    pay = {"pp": first, "bb": 2 * first, "pbb": 2 * first, "bp": 1.0, "pbp": -1.0}
    return (pay[past], -pay[past]) if past in pay else None


def padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, ...]:
    """Ids, mask and positions of rows that end at the right edge."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + [*row] for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask, (mask.cumsum(1) - 1).clamp(min=0)


def logprobs(
    model: Any, texts: Sequence[Sequence[int]], replies: Sequence[int]
) -> torch.Tensor:
    """float32[N, 2] of the tokens of replies; what follows a reply of one is not read."""
    texts = [[*t, *[0] * (2 - size)] for t, size in zip(texts, replies, strict=True)]
    ids, mask, positions = padded(texts)
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=3
    ).logits[:, :-1]
    found: torch.Tensor = logits.log_softmax(-1).gather(2, ids[:, -2:, None])[..., 0]
    return found


def kuhn_tokens(
    folder: Path,
) -> tuple[dict[Key, list[int]], dict[tuple[int, ...], str], set[int]]:
    """The prompts of all information states, actions by their tokens, and end tokens."""
    import arena_envs
    from arena_envs.game import CHANCE, TERMINAL
    from arena_trainers.lm import LMPolicy
    from arena_wrappers import PromptOptions, TurnRequest

    policy, game = LMPolicy.from_pretrained(folder), arena_envs.make_game("kuhn_poker")
    prompts: dict[Key, list[int]] = {}

    def walk(state: Any, past: str) -> None:
        seat = game.current_player(state)
        if seat == CHANCE:
            for outcome, _ in game.chance_outcomes(state):
                walk(game.apply(state, outcome), past)
        elif seat != TERMINAL:
            request = TurnRequest.at(game, state, policy.prompt or PromptOptions(), 0)
            text = request.messages[-1]["content"]
            card = next(card for card in "JQK" if f"hold {card}" in text)
            prompts[seat, card, past] = policy.prompt_ids(request)
            for action, letter in zip(game.legal_actions(state), "pb", strict=True):
                walk(game.apply(state, action), past + letter)

    walk(game.initial_state(), "")
    action_of = {
        (*policy.chat.ids(word), end)[:2]: letter
        for word, letter in (("pass", "p"), ("bet", "b"))
        for end in policy.eos_ids
    }
    return prompts, action_of, {*policy.eos_ids}


def main() -> None:
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback

    from arena_trainers.runs.recipe import load_recipe
    from arena_trainers.runs.settings import build_configs
    from arena_trainers.train.trainer import TurnGRPOTrainer

    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--episodes", type=int, default=128, help="of a step")
    parser.add_argument("--turns", type=int, default=6, help="the first is not counted")
    parser.add_argument("--steps", type=int, default=8, help="of a turn")
    args = parser.parse_args()
    torch.set_num_threads(1)
    times: list[tuple[float, float]] = []
    num_steps: int = args.steps
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        start(Path(folder))
        floor = Floor(model, args.episodes)

        class Turns(TrainerCallback):
            last = time.process_time()

            def on_step_end(
                self, args: Any, state: Any, control: Any, **_: Any
            ) -> None:
                if state.global_step % num_steps:
                    return
                ours = time.process_time()
                for _step in range(num_steps):
                    floor.step()
                now = time.process_time()
                times.append((ours - self.last, now - ours))
                self.last = time.process_time()

        options = {
            **load_recipe("kuhn-tiny"),
            "max_steps": args.turns * args.steps,
            "episodes_per_step": args.episodes,
            "save_strategy": "no",
        }
        _, settings = build_configs(options, str(Path(folder) / "run"))
        settings.report_to, settings.disable_tqdm = [], True
        tokenizer = AutoTokenizer.from_pretrained(model)
        trainer = TurnGRPOTrainer(str(model), settings, processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Turns())
        trainer.train()
    ours, theirs = zip(*times[1:], strict=True)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    per_step = [1e3 * statistics.median(x) / args.steps for x in (ours, theirs)]
    print(
        f"ours {per_step[0]:.1f} ms, floor {per_step[1]:.1f} ms a step", file=sys.stderr
    )
    print(
        f"ours / floor: {statistics.median(ratios):.2f}; "
        f"of single turns: {min(ratios):.2f} to {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
