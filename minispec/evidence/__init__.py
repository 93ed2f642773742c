"""Is it right, how fast is it."""

from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.report import Report

__all__ = ["Report", "check_verifier"]
