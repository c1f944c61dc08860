"""Chat systems: what comes in from them becomes one typed IncomingEvent, what goes out becomes an Outcome.

May import infra, accounts and settings. To add one, see base.py.
"""
