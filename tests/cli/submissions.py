"""Submissions of a class of four: one right, one wrong, one that never ends, and one that means harm."""

RIGHT = '''
import torch
from minispec.classroom import check, predict

SMALL = 1e-30


def positive_part(x):
    return x.clamp(min=0)


def residual(p, q):
    """Returns what q was short of."""
    rest = positive_part(p - q)
    return rest / rest.sum() if rest.sum() > SMALL else p


predict("correction-again", guess="a")
predict("acceptance-by-hand", guess=1 / 2)
check("residual", residual)
raise SystemExit("the grader does not run this line")
'''

WRONG = """
from minispec.classroom import predict

predict("correction-again", guess="b")
predict("acceptance-by-hand", guess=0.25)


def residual(p, q):
    return p


def verify_greedily(drafted, best):
    return 0, best[99]
"""

HANGING = """
from minispec.classroom import predict

predict("correction-again", guess="b")


def residual(p, q):
    while True:
        try:
            import time
            time.sleep(1)
        except BaseException:
            pass


def verify_greedily(drafted, best):
    accepted = 0
    for one, other in zip(drafted, best):
        if one != other:
            break
        accepted += 1
    return accepted, best[accepted]
"""

# Each trick on its own: after one that ends the process, those after it would never be tried.
TRICKS = {
    "prints a result": """
import sys
print("right 99"); sys.__stdout__.write('{"value": 1}\\n'); sys.__stdout__.flush()
""",
    "exits early": "import os; os._exit(0)",
    "starts a process": 'import subprocess, sys; subprocess.Popen([sys.executable, "-c", "1 / 0"])',
    "dies, and a child holds the line": """
import os, time
if not os.fork():
    os.setsid(); time.sleep(15)
os._exit(1)
""",
    "patches check": """
import minispec.classroom.cards as checking, minispec.classroom.exercise as exercise
right = lambda *_, **__: exercise.Judgement("right", "all mine")
checking.check = checking.card_for = exercise.Exercise.judge = exercise.Exercise.compare = right
exercise.same = exercise.equal = lambda *_: True
""",
    "fills the line": """
import os
for number in range(3, 64):
    try:
        os.write(number, b'{"value": 1, "fault": "", "kind": ""}\\n' * 99)
    except OSError:
        pass
""",
}
NAMES = (
    *("verify_greedily", "cache_bytes", "positions_computed"),
    *("verification_mask", "cache_lengths", "residual"),
)


def hostile() -> str:
    """Returns a submission that tries a trick in each of its answers, all of them wrong."""
    parts = []
    for name, trick in zip(NAMES, TRICKS.values(), strict=True):
        lines = "\n".join(f"        {line}" for line in trick.strip().splitlines())
        body = f"    try:\n{lines}\n    except Exception:\n        pass\n    return 12345678"
        parts.append(f"def {name}(*given):\n{body}")
    return "\n\n\n".join(parts) + "\n"
