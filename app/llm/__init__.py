"""Talking to models: endpoints, chat, streams, tool calls written as text, the model list, and `offline`.

May import infra and settings. `base.ChatModel` is the seam: to add a kind of model, write one module with a class that
has `stream(request)`, and give it to callers in `endpoints.resolve`. A call goes payload -> chat -> (sse, answers,
fragments, visible) -> Completion; what can go wrong on the way gets its class and its sentence in failures.
"""
