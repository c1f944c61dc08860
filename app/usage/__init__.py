"""Tokens per model call, and their sums per day. Imports infra and accounts; what a call cost is told by who made it."""
