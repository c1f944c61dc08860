"""Running Parley: whether all of it works, backups, keys, cleaning up, and what monitoring reads.

May import everything below. To examine another part in `doctor`: a function that gives Checks, and one line in doctor.py;
what asks other servers goes through sidebyside.
"""
