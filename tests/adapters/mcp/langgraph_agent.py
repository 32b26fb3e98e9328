"""A LangGraph agent whose tools are those of an MCP server, by the official SDK's client."""

from typing import Any

from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mcp import Client


def tool_of(client: Client, told: Any) -> StructuredTool:
    async def call(**given: Any) -> str:
        result = await client.call_tool(told.name, given)
        (text,) = [part.text for part in result.content]
        if result.is_error:
            raise ToolException(text)  # the agent reads it and may call again
        return text

    shown = {"name": told.name, "description": told.description or told.name}
    schema = {"args_schema": told.input_schema, "handle_tool_error": True}
    return StructuredTool(coroutine=call, **shown, **schema)


async def main(model: Any, server: Any, task: str) -> list[Any]:
    """The messages of an agent that works on a task, such as "Play kuhn_poker"."""
    async with Client(server) as client:
        tools = [tool_of(client, told) for told in (await client.list_tools()).tools]
        chat = model.bind_tools(tools)

        async def reply(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await chat.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState).add_node("model", reply)
        graph.add_node("tools", ToolNode(tools)).add_edge("tools", "model")
        graph.add_edge(START, "model").add_conditional_edges("model", tools_condition)
        done = await graph.compile().ainvoke({"messages": [("user", task)]})
        return list(done["messages"])
