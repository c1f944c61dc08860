"""Nextcloud Talk: webhooks in, signed posts out, and the commands that connect a server.

May import what platforms may. `platform.PLATFORM` is what the registry finds; nothing outside imports this folder.
"""
