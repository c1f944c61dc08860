"""The agent loop, without a database: a Turn goes in, events come out.

May import llm.base, tools, and infra's errors, clock, logs and i18n; never db, platforms, rooms, realtime or traces.
"""
