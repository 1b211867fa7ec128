"""The tools in other people's programs: a module for each, which needs that one and no other.

| module | gives the tools to | extra |
| --- | --- | --- |
| `pydantic_ai` | agents of pydantic-ai | `pydantic-ai` |
| `openai_agents` | those of the OpenAI Agents SDK | `openai-agents` |
| `langchain` | those of LangChain and LangGraph | `langchain` |
| `anthropic` | the tool runner of Anthropic's SDK | `anthropic` |
| `mcp` | hosts of the Model Context Protocol | `mcp` |

`reflect` makes tools of a database of which there are no classes.

Each takes a `BoundToolset` and says in which conversation, and for which owner, a call is:

>>> desk = toolset.bind(sessions, registry=registry)
>>> agent = Agent(model, toolsets=[RefToolset(desk, lambda ctx: (ctx.conversation_id, ctx.deps))])
"""
