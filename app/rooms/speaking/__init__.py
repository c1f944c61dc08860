"""An answer that takes long is said piece by piece: what of it is complete, when it may be said, and what it may show.

May import what rooms may. `pieces` and `links` are pure; `speech` follows one turn and writes and sends its pieces.
"""
