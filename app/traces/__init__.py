"""What runs did: a row per turn, a row per step. Writing them is best effort and never harms a turn.

Imports infra and settings. What is written is redacted by kind and capped (redact.py); who may read which part of it is
decided in view.py alone. To add a kind of step: give it a name and, where it is text, an entry in redact.LIMITS.
"""
