"""Every accepted event, once: a row is stored before it is acknowledged, and worked off in order per room.

Imports infra, settings, platforms, traces; its doors hand each delivery to rooms.answer. The row is the truth, a job is
only a wake-up. `gaps` notes when no event could be taken. To add a reason why an event ended as it did: one line in
reasons.py with its meaning.
"""
