"""A bot's first questions in a room, before the message that met it first is answered (product.md K6)."""
