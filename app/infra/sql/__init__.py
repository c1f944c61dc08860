"""Statements for the paths on which somebody waits for every one of them."""
