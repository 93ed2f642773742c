"""What theory predicts: the formulas of the papers, and statistics with known error rates."""
