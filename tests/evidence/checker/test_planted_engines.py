"""Engines with planted faults: which ones `check_engine` finds, and with how many texts.

The table is `FAULTS` of `planted_engines`. `MINISPEC_ENGINES=262144` before pytest asks the engines that the
default size takes for right for so many texts, in minutes.
"""

import os

import pytest
from engines import PLAIN, target_of
from planted_engines import DEFAULT, FAULTS, Alone, Loop

from minispec import check_engine

MOST = int(os.environ.get("MINISPEC_ENGINES", "1024"))
FOUND = [name for name, fault in FAULTS.items() if fault.found == DEFAULT]


def report_on(name, samples):
    fault = FAULTS[name]
    settings = {"prompts": PLAIN.prompts, "samples": samples} | fault.settings
    return check_engine(fault.engine(), fault.target, **settings)


@pytest.mark.evidence
@pytest.mark.parametrize("engine", [Loop, Alone])
def test_without_a_fault_they_pass(engine):
    """A false alarm once in 10^6 runs."""
    report = check_engine(engine(), target_of(PLAIN), prompts=PLAIN.prompts)
    assert report.passed and report.samples == report.instances == DEFAULT


QUICK = ("every text comes twice", "a wrong context at the last token only", "never ends at the first token")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.evidence) for name in FOUND if name not in QUICK)]
)
def test_a_fault_is_found_at_the_default_size(name):
    """16,384 texts of 8 tokens, or fewer: the check stops as soon as it is clear. Seeds are fixed."""
    report = report_on(name, DEFAULT)
    test = FAULTS[name].test
    assert not report.passed and report.instances <= DEFAULT
    assert test in ("", report.failure.name), report
    assert report.counterexample.event and report.reason in str(report)


@pytest.mark.evidence
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in FOUND])
def test_other_faults_are_found_at_the_stated_size_and_not_before(name):
    """By default only the second half of that is tried, with few texts."""
    found = FAULTS[name].found
    assert report_on(name, MOST).passed == (found is None or MOST < found)
