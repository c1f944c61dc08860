"""Talking to models: endpoints, chat, streams, tool calls written as text, the model list, and `offline`.

May import infra and settings. `base.ChatModel` is the seam: to add a kind of model, write one module with a class that
has `stream(request)`, and give it to callers in `endpoints.resolve`. What resolve gives is made for one turn, in layers:

- `fallback` asks another model where the chosen one can't be had;
- `patience` asks one model within its `limits`, with its `quirks` in mind, and again where that can help;
- `chat` makes one exchange: payload -> chat -> (sse, answers, fragments, visible) -> Completion.

What can go wrong on the way gets its class and its sentence in failures. Tables: models.
"""
