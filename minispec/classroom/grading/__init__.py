"""Grading a folder of submissions, each in a process of its own. The worker imports this: no answers here."""
