"""One bot thinks about one message: `question` is what it is asked, `memory` what it knows of the room, `run` the turn."""
