"""Benchmarks: Parley and its reference in turn, and only their ratio counts (the machine may be busy)."""
