"""What an administrator changes at run time: typed settings and model endpoints, secrets sealed. Rank 1: infra only.

A new setting is one `Setting` in schema.py; its limits, sentence, API, command and documentation follow from it.
"""
