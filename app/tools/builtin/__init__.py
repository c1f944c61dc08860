"""The tools that come with Parley. To add one: a module here with a list TOOLS; it imports tools.base and lower ranks."""
