"""Plugs that know nothing of bots. Imports only the standard library, libraries and app.config.

A new plug is one module here with one subject; what it wraps (requests, celery, flask's session) is wrapped only here.
"""
