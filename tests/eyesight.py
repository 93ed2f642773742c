"""The contrast of two colours, by the web's accessibility guidelines."""

import numpy as np
from matplotlib.colors import to_rgb

BRIGHTNESS = np.array([0.2126729, 0.7151522, 0.0721750])  # of linear red, green and blue


def luminance(colour):
    """Returns the relative luminance, 0 to 1."""
    rgb = np.array(to_rgb(colour))
    return float(BRIGHTNESS @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4))


def contrast(one, other):
    """Returns the contrast ratio, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
