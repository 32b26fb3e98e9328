"""verl: an agent loop; rows have `agent_name: arena_seat` and `extra_info: {"seed": 3}`."""

from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopOutput,
    register,
)

from arena_wrappers import SeatSession


@register("arena_seat")
class ArenaSeat(AgentLoopBase):  # type: ignore[misc]
    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        given = {"game": "kuhn_poker", "opponents": "cfr", **row["extra_info"]}
        seed, prompt = given.pop("seed"), {"history": "transcript"}
        session = SeatSession(**given, prompt=prompt)
        shown, mask, logprobs = session.reset(seed), [], []
        ids = start = await self.ct_build_initial_tokens(shown)
        num_replies, request = 0, uuid4().hex
        while not session.done:
            said = await self.server_manager.generate(
                request_id=request, prompt_ids=ids, sampling_params=sampling_params
            )
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, said.token_ids, mask, logprobs, said.log_probs
            )
            ids, num_replies = merged.token_ids, num_replies + 1
            text = self.tokenizer.decode(said.token_ids, skip_special_tokens=True)
            shown, _, _, info = session.step(text)
            if not session.done:
                merged, mask, logprobs = await self.ct_merge_context_msg(
                    shown[:-1], shown, ids, mask, logprobs
                )
                ids = merged.token_ids
        return AgentLoopOutput(
            prompt_ids=start,
            response_ids=ids[len(start) :],
            response_mask=mask,
            response_logprobs=logprobs,
            reward_score=session.returns[session.seat],
            num_turns=2 * num_replies,
            metrics={},
            extra_fields={"turn_scores": info["turn_rewards"], "tool_rewards": []},
        )
