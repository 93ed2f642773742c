"""Figures. Each takes data and returns a `Picture` or a matplotlib Figure; none of them runs a model."""
