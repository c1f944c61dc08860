"""What the model can do: built-in tools, the registry, reading and checking of arguments, and the call itself.

May import llm.base and lower ranks. To add a built-in tool: one file in builtin/ with a list TOOLS.
"""
