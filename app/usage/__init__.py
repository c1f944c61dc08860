"""Tokens per model call, and their sums per day. Imports infra only; what a call cost is told by whoever made it."""
