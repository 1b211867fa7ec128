"""Adapters: a bound toolset in agent frameworks, one module and one extra each.

| module | gives the tools to | extra |
| --- | --- | --- |
| `pydantic_ai` | agents of pydantic-ai | `pydantic-ai` |
| `openai_agents` | agents of the OpenAI Agents SDK | `openai-agents` |
| `langchain` | agents of LangChain and LangGraph | `langchain` |
| `anthropic` | the tool runner of Anthropic's SDK | `anthropic` |
| `mcp` | hosts of the Model Context Protocol | `mcp` |

A module imports only its own framework. Each takes a `BoundToolset` and a function that returns
the conversation and the owner of a call:

    desk = toolset.bind(sessions, registry=registry)
    refs = RefToolset(desk, lambda ctx: (ctx.conversation_id, ctx.deps.user_id))
    agent = Agent(model, toolsets=[refs])

`opentelemetry` traces the calls of tools (extra `opentelemetry`). `reflect` maps classes to the
tables of a database without mapped classes, for a toolset.
"""
