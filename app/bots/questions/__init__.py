"""What a bot asks first in a room: `tree` checks the questions when they are written, and walks them when they are asked.

May import infra. To allow another kind of answer: its name beside FREE_TEXT, and how it is read in rooms.onboarding.
"""
