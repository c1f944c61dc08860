"""What single model servers do not take, learned from their refusals: never guessed from the name of a model.

`base` names the quirks, `signs` tells from a refusal which one it is, `shape` and `conversation` write a request so
that the server takes it (the fields of the body itself are payload's), `memory` keeps what was learned for a day.

To add one: a member of base.Quirk, its sign in signs.SIGNS, and how the request changes in shape, conversation or payload.
"""
