"""How colours look to others: in greyscale, and with no cones for green.

The matrix is for deuteranopia, severity 1.0: Machado, Oliveira and Fernandes 2009, table 1. It works on
linear RGB. Distances are between colours in CIE L*a*b* (1976), white D65.
"""

import numpy as np
from matplotlib.colors import to_rgb

DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour):
    """Returns a colour's linear RGB."""
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Returns L*a*b* of linear RGB."""
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, view=None):
    """Returns how far two colours are apart, as they are or through a matrix."""
    matrix = np.eye(3) if view is None else view
    return float(np.linalg.norm(lab(matrix @ linear(one)) - lab(matrix @ linear(other))))


def grey_distance(one, other):
    """Returns how far two colours are apart in lightness L*, 0 to 100."""
    return float(abs(lab(linear(one))[0] - lab(linear(other))[0]))


def luminance(colour):
    """Returns the relative luminance, 0 to 1."""
    return float(TO_XYZ[1] @ linear(colour))


def contrast(one, other):
    """Returns the contrast ratio of the web's accessibility guidelines, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
