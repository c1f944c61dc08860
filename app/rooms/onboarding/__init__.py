"""A bot's first questions in a room, before the message that met it first is answered (product.md K6).

`asking` decides what a message is to a question that waits; `rounds` keeps where each round stands, and lets the waiting
message go on when it is over; `matching` reads an answer, `wording` puts a question. May import what rooms may.
"""
