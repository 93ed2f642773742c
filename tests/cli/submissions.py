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

# Each trick on its own: after one that ends the process, those behind it would never be tried.
TRICKS = {
    "prints a result": """
import sys
print("right 99"); sys.__stdout__.write('{"did": "trial", "value": 1}\\n'); sys.__stdout__.flush()
""",
    "exits early": "import os; os._exit(0)",
    "kills its parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "writes outside": 'open(OUTSIDE, "w").write("here")',
    "removes a file": "import os; os.remove(KEPT)",
    "starts a process": 'import subprocess, sys; subprocess.Popen([sys.executable, "-c", "1 / 0"])',
    "forks": "import os, time\nif not os.fork():\n    os.setsid(); time.sleep(600)",
    "patches check": """
import minispec.classroom.checking as checking, minispec.classroom.judging as judging
from minispec.classroom.exercise import Finding
right = lambda *_, **__: Finding("right", "all mine")
checking.check = checking.card_for = judging.Bench.judge = right
judging.same = judging.equal = lambda *_: True
""",
    "fills the line": """
import os
for number in range(3, 64):
    try:
        os.write(number, b'{"did": "trial", "value": 1, "fault": "", "kind": "", "blank": false}\\n' * 99)
    except OSError:
        pass
""",
}
NAMES = (
    *("continue_greedily", "cache_bytes", "positions_computed", "total_variation", "verify_greedily"),
    *("verification_mask", "residual", "cache_lengths", "best_k"),
)


def hostile(outside: str, kept: str) -> str:
    """Returns a submission that tries a trick in each of nine answers, all of them wrong.

    Args:
        outside: a file that it tries to write.
        kept: a file that it tries to remove.
    """
    parts = [f"OUTSIDE, KEPT = {outside!r}, {kept!r}"]
    for name, trick in zip(NAMES, TRICKS.values(), strict=True):
        lines = "\n".join(f"        {line}" for line in trick.strip().splitlines())
        body = f"    try:\n{lines}\n    except Exception:\n        pass\n    return 12345678"
        parts.append(f"def {name}(*given):\n{body}")
    return "\n\n\n".join(parts) + "\n"
