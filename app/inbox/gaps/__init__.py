"""Times in which no event could be taken: noticed by a sign of life, noted for each server, told to whoever asks.

May import what inbox may. Talk sends an event once, so what it sent then is lost to the webhook; rooms.recovery reads it
from the rooms afterwards.
"""
