"""Is it right, how fast is it."""

from minispec.evidence.check import check_verifier
from minispec.evidence.report import Report

__all__ = ["Report", "check_verifier"]
