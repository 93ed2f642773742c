"""What notebooks ask and answer: predictions, and exercises that are checked."""

from minispec.classroom.cards import check, goal, hint, wrote
from minispec.classroom.questions import predict

__all__ = ["check", "goal", "hint", "predict", "wrote"]
