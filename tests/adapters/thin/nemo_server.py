"""NeMo-Gym: a resources server; `verifier_metadata` of a row names game, seed and opponents."""

from typing import Any

from resources_servers.gymnasium import GymnasiumServer, extract_text

from arena_wrappers import SeatSession


class ArenaServer(GymnasiumServer):  # type: ignore[misc]
    async def reset(self, metadata: Any, session_id: Any = None) -> Any:
        row = {
            "game": "kuhn_poker",
            "opponents": "cfr",
            **metadata["verifier_metadata"],
        }
        seed, prompt = row.pop("seed"), {"history": "transcript"}
        session = self.session_state[session_id] = SeatSession(**row, prompt=prompt)
        shown = session.reset(seed)
        return "\n\n".join(message["content"] for message in shown), session.info()

    async def step(self, action: Any, metadata: Any, session_id: Any = None) -> Any:
        session = self.session_state[session_id]
        shown, reward, done, info = session.step(extract_text(action))
        cut = info["truncated"]
        return (
            None if done else shown[-1]["content"],
            reward,
            done and not cut,
            cut,
            info,
        )


if __name__ == "__main__":
    ArenaServer.run_webserver()
