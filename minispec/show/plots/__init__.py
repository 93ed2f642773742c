"""Figures. Each takes data and returns a `Picture` or a matplotlib Figure; none of them runs a model."""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("figures need matplotlib: in minispec's folder, pip install -e '.[figures]'")
