"""The sandbox: a small Talk server of our own on loopback, so that Parley can be tried without a Nextcloud.

It is a normal instance with a normal registration: the real client, signature and breaker are used. Nothing elsewhere
knows it apart.
"""
