"""A chat room talks to a bot: the flow from an accepted event to the answer in the room.

May import everything below. `answer` is the table of contents; what it lists stands beside it: `events` (what is only
noted), `guard` (what is said without a model), `thinking` (the turn), `parts` (rows before they are sent), `deliver`
(each sent once), `heard`, `modes`, `members`. To handle another event of a room: one line in events.EVENTS.
"""
