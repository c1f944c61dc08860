"""What was said between people and bots in rooms: stored, read in order, searched, and erased when it must be.

May import infra, accounts and settings. A conversation belongs to a bot, a room and a thread; tool results never stand
in it. `store` writes and erases, `history` and `search` read, `expiry` obeys how long a room keeps its messages,
`cancel` holds the wishes to stop,
`transcript` keeps a whole room where its moderators want that. Rights come in as a callable: this package knows no sources.
"""
