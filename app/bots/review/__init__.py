"""How a bot that is for others gets there: drafts, review, approval, and what waits beside a live version.

`rights` holds the one table of who may do what; `version` tells which version somebody talks to; `edit` makes and
changes bots, `decide` submits, approves, rejects and tests them, `waiting` lists what a reviewer has to decide. Every
write is conditional on the revision that it was judged on. May import what bots may. A new verb is one more row in
rights.RULES.
"""
