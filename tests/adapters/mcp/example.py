"""A client of `arena serve mcp` plays Kuhn poker; an agent calls the same tools."""

import asyncio
import sys

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(
    command=sys.executable,
    args=["-m", "arena_trainers", "serve", "mcp", "--seed", "0"],
)


async def main(server=SERVER, num_games: int = 20) -> float:
    """Mean return of always betting."""

    async def call(tool: str, **arguments) -> dict:
        return (await client.call_tool(tool, arguments)).structured_content

    returns = []
    async with Client(server) as client:
        for _ in range(num_games):
            seen = await call("new_game", id="kuhn_poker-v0")
            game = seen["game"]
            while not seen["done"]:
                seen = await call("act", game=game, action="bet")
            returns.append(seen["return"])
    return sum(returns) / num_games


if __name__ == "__main__":
    print("mean return:", asyncio.run(main()))
