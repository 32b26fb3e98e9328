"""A plan of a team: before it moves, the model chooses which agents it asks, and pays for each.

After MasHost (https://arxiv.org/abs/2506.08507), which builds a team of agents for each question by
reinforcement learning. The host's reply names who is asked: "bet" asks a critic, anything else nobody. Each
call is paid its part: the host and the critic pay for their tokens, the player gets what the game pays. Every
call is credited beside those of its own role. MasHost searches a graph of many roles; here it has one edge.

    python notebooks/examples/team_plan.py
"""

from collections import Counter
from tempfile import TemporaryDirectory

from arena_envs import make_game
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import AgentPolicy, Ask, PromptOptions, Reply
from arena_wrappers.policies import add_instruction, roles


@roles("host", "critic", "player")
def team(view):
    """The host plans the team, a critic may speak, the player moves."""
    plan = yield Ask("host", add_instruction("Ask the critic?", view.messages))
    prompt, parent = view.messages, plan
    if plan.text == "bet":
        advice = add_instruction("Advice?", view.messages)
        parent = yield Ask("critic", advice, parent=plan)
        prompt = add_instruction(f"Advice: {parent.text}", view.messages)
    move = yield Ask("player", prompt, parent=parent)
    return Reply(move.text)


def cost(calls):
    """Each token of a call that does not move costs 0.5."""
    return [
        -0.5 * len(call.generation.token_ids) * (call.generation.role != "player")
        for call in calls
    ]


def train(folder, num_steps=40):
    """Calls of each role in the first and in the last batch."""
    game, short = make_game("kuhn_poker"), PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer([*words_of(game, short), "Ask the critic? Advice:"])
    args = TurnGRPOConfig(
        output_dir=folder, games=["kuhn_poker"], rules=False, reply_format="bare",
        on_invalid="random", max_completion_length=2, max_steps=num_steps,
        episodes_per_step=64, learning_rate=1e-2, part_weights={"cost": 1.0},
        credit="mars(pool=[role])", use_cpu=True, bf16=False, report_to="none",
        gradient_checkpointing=False, save_strategy="no", disable_tqdm=True, logging_steps=1000,
    )  # fmt: skip
    trainer = TurnGRPOTrainer(
        tiny_model(tokenizer, hidden_size=16, num_layers=1),
        args,
        processing_class=tokenizer,
        agent=lambda model: AgentPolicy(team, model),
        columns={"rewards.cost": cost},
    )
    trainer.train()
    records = trainer.last_selected.records
    tokens = Counter()
    for record in records:
        tokens[record.role] += record.num_tokens
    return {role: num / len(records) for role, num in tokens.items()}


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        print("tokens by role, of all calls:", train(place))
