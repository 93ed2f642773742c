"""Other ways to verify: coupled, block, trees of candidates, lossy on purpose; and exact mode."""
