"""Assignment 6: audit a sampler. What is wanted, and how it is graded, stands in the statement."""

# Drawn for you. "target": after each beginning of a text the weights of the ids 0, 1, 2, in twelfths.
# "counts": how often your engine emitted each text. "damage", "false_alarm", "miss" and "most_samples": what
# your audit has to reach, and how many texts it may ask for.
PARAMETERS: dict = {}

# What your engine does wrong. "after": the beginning after which, a dot for any id. There "giver" loses
# probability, and "taker" gets it. "damage": the total variation from the target's texts.
FINDING = {"after": None, "giver": None, "taker": None, "damage": None}

# Your audit's error rates: alarms at samplers that are right, and silence at samplers that are as far away as
# PARAMETERS["damage"] says, in any way.
FALSE_ALARM = None
MISS = None


def audit(sample, target, most):
    """Returns True, an alarm, if a sampler does not emit the target's texts; else False.

    sample(n) emits n new texts, and returns how often each came: {"000": 5, "001": 0, …}, all 27.
    target: as in PARAMETERS, with other weights. most: how many texts you may ask for, all calls together.
    """
    ...
