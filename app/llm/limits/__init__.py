"""How much may be asked of a model server: what an administrator allows, what the server allows, what one turn may cost.

`buckets` counts calls per endpoint for all processes, `headers` reads what servers say about their own limits,
`capacity` bounds the output of a call, `attempts` the exchanges of a turn.
"""
