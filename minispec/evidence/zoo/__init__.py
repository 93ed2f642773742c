"""Bugs planted in the shipped code, and the checks that find them."""
