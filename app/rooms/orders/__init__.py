"""What people tell a bot to do in a room besides answering: help, stop, setup, memory, usage, mode, ((RESET)).

A rank below rooms.answer; may import what rooms may. To add an order: one line in the table of orders.
"""
