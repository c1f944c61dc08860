"""After a gap, what the webhook missed is read from the rooms by the service user, and put into the inbox (product.md K21).

A rank below rooms.tasks; may import what rooms may. `inbox.gaps` notices gaps and tells of them.
"""
